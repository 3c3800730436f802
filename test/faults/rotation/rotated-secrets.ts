import { expect } from "chai";
import type { TestServer } from "../../harness/server.ts";
import { until } from "../own-engines.ts";
import type { MakeTarget, Target } from "./targets.ts";

/** A secret that is rotated by schedule at a target of its own. */
export interface RotatedSecret {
  readonly id: string;
  readonly configId: string;
  readonly kind: string;
  readonly target: Target;
}

/** Secrets with targets, of which one always looks whether the current values are good for logging in. */
export class RotatedSecrets {
  readonly all: readonly RotatedSecret[];
  readonly #server: TestServer;

  private constructor(server: TestServer, all: readonly RotatedSecret[]) {
    this.#server = server;
    this.all = all;
  }

  /** One for each kind, none of them due; by the gateways of an environment if one is named, else by the server. */
  static async make(
    server: TestServer,
    kinds: Readonly<Record<string, MakeTarget>>,
    gatewayEnvironment?: string,
  ): Promise<RotatedSecrets> {
    const all: RotatedSecret[] = [];
    for (const [kind, make] of Object.entries(kinds)) {
      const target = await make();
      const { id } = await server.secret({ value: target.value });
      const path = `/api/v1/secrets/${id}/rotation-config`;
      const config = gatewayEnvironment === undefined ? target.config : byGateway(target.config, gatewayEnvironment);
      const { status, body } = await server.admin.rest("PUT", path, { ...config, enabled: true });
      expect(status, JSON.stringify(body)).to.equal(200);
      all.push({ id, configId: body.id, kind, target });
    }
    return new RotatedSecrets(server, all);
  }

  get ids(): string[] {
    return this.all.map(({ id }) => id);
  }

  /** Lets the time of all have come. */
  async makeDue(): Promise<void> {
    await this.#server.sql("update secret set next_rotation = now(), rotation_due_at = now() where id = any($1)", [
      this.ids,
    ]);
  }

  /** Queues a rotation of each, as a server does that dies before it starts it. */
  async queue(): Promise<void> {
    await this.#server.sql(
      `insert into gateway_task (organization_id, type, config_id, secret_id, max_attempts, requested_by)
       select organization_id, 'rotate_secret', rotation_config_id, id, 1, 'system' from secret where id = any($1)`,
      [this.ids],
    );
  }

  /** Waits until each rotation has come to where its wire fails, or has ended. */
  async haveFailedOrEnded(): Promise<void> {
    await until(async () => {
      const versions = await this.versions();
      return this.all.every(({ id, target }) => target.wire?.hasFailed || versions.get(id) !== 1);
    }, 20_000);
  }

  /** Waits until all have been rotated so often, whatever has befallen them. */
  async recover(versions: number): Promise<void> {
    for (const { target } of this.all) target.wire?.mend();
    await this.untilInTime(async () => {
      const open = await this.#server.sql(
        "select from gateway_task where secret_id = any($1) and status in ('pending', 'running')",
        [this.ids],
      );
      return open.length === 0 && [...(await this.versions()).values()].every((version) => version >= versions);
    });
  }

  /** Waits, and lets what began before run out of time meanwhile, and what fails be tried again at once. */
  async untilInTime(condition: () => Promise<boolean>): Promise<void> {
    const [{ now }] = await this.#server.sql("select now()::text as now");
    await until(async () => {
      await this.#server.sql(
        `update gateway_task set deadline_at = now()
         where secret_id = any($1) and status = 'running' and claimed_at < $2 and deadline_at > now()`,
        [this.ids, now],
      );
      await this.#server.sql(
        `update secret s set rotation_due_at = now() where id = any($1) and rotation_due_at > now() and (next_rotation <= now()
           or exists (select from rotation_config c where c.secret_id = s.id and c.unresolved))
           and not exists (select from gateway_task t where t.secret_id = s.id and t.status in ('pending', 'running'))`,
        [this.ids],
      );
      return condition();
    }, 60_000);
  }

  async versions(): Promise<ReadonlyMap<string, number>> {
    const rows = await this.#server.sql("select id, version from secret where id = any($1)", [this.ids]);
    return new Map(rows.map(({ id, version }) => [id, version]));
  }

  /** All current values log in, versions have no gaps, and nothing of an attempt is left. */
  async expectConsistent(what: string): Promise<void> {
    for (const { id, configId, kind, target } of this.all) {
      const about = `${what}, ${kind}`;
      const { body } = await this.#server.admin.rest("GET", `/api/v1/secrets/${id}`);
      expect(await target.accepts(body.value), `${about}: the value logs in`).to.equal(true);
      const rows = await this.#server.sql("select version from secret_version where secret_id = $1 order by version", [
        id,
      ]);
      expect(rows, about).to.deep.equal(Array.from({ length: body.version }, (_, index) => ({ version: index + 1 })));
      const [succeeded] = await this.#server.sql(
        "select count(*)::int from gateway_task where secret_id = $1 and status = 'succeeded'",
        [id],
      );
      expect(succeeded.count, `${about}: a version for each rotation`).to.equal(body.version - 1);
      const [config] = await this.#server.sql(
        `select last_status, candidate, candidate_attempts, unresolved, earlier_candidates, consecutive_failures
         from rotation_config where id = $1`,
        [configId],
      );
      expect(config, about).to.deep.equal({
        last_status: "succeeded",
        candidate: null,
        candidate_attempts: 0,
        unresolved: false,
        earlier_candidates: null,
        consecutive_failures: 0,
      });
    }
  }
}

const byGateway = ({ provider, provider_settings, credentials = {} }: Target["config"], environment: string) => ({
  provider: "gateway",
  provider_settings: { driver: provider, driver_settings: provider_settings },
  credentials,
  gateway_environment: environment,
});
