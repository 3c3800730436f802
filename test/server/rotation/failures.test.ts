import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { asSystem } from "../../../src/server/jobs.ts";
import { noteFailed, type RotationFailure } from "../../../src/server/rotation/failures.ts";
import { useServer } from "../../harness/server.ts";
import { Configurations } from "./configurations.ts";

const server = useServer();
const configurations = new Configurations(server);

interface Failing {
  readonly organizationId: string;
  readonly configId: string;
  readonly secretId: string;
  readonly key: string;
}

const atTarget = { provider: "webhook", provider_settings: { url: "https://rotate.example.com/hook" } };

/** A secret whose rotations at a target are to fail. */
async function failing(fields: Record<string, unknown> = { enabled: true }): Promise<Failing> {
  const { secret, config } = await configurations.of({ ...atTarget, ...fields });
  const [row] = await server.sql("select organization_id from secret where id = $1", [secret.id]);
  return { organizationId: row.organization_id, configId: config.id, secretId: secret.id, key: secret.key };
}

const usual = { code: "refused", message: "the target said no", unchanged: true } as const;

function fail(failed: readonly Failing[], how: Partial<RotationFailure> = {}): Promise<void> {
  const { audit, db } = server.server.core;
  return asSystem(db, (em) =>
    noteFailed(
      em,
      audit,
      failed.map((each) => ({ ...each, ...usual, ...how })),
    ),
  );
}

/** In how many minutes the scheduler looks at a secret; null for never. */
async function minutesUntilLook({ secretId }: Failing): Promise<number | null> {
  const [row] = await server.sql(
    `select extract(epoch from rotation_due_at - last_error_at)::float8 / 60 as minutes
     from secret s join rotation_config c on c.secret_id = s.id where s.id = $1`,
    [secretId],
  );
  return row.minutes;
}

const toldOf = ({ secretId }: Failing) =>
  server.sql(
    `select actor_type, outcome, resource_type, resource_name, project_id, reason, details::json as details
     from audit_event where resource_id = $1 and action = 'rotation.failed' order by occurred_at, id`,
    [secretId],
  );

describe("A failed rotation", () => {
  it("is shown with what went wrong, and how often in a row, while what was due stays due", async () => {
    const each = await failing();
    await server.sql("update secret set next_rotation = now() - interval '1 hour' where id = $1", [each.secretId]);
    const before = await configurations.get(each.secretId);

    await fail([each]);
    await fail([each], { code: "unreachable", message: "the target is away" });

    const after = await configurations.get(each.secretId);
    expect(after).to.include({
      last_status: "failed",
      consecutive_failures: 2,
      next_rotation: before.next_rotation,
      enabled: true,
    });
    expect(after.last_error).to.include({ code: "unreachable", message: "the target is away" });
    expect(Date.parse(after.last_error.at)).to.be.closeTo(Date.now(), 60_000);
  });

  it("is tried again after 1, 5, 15, and then every 60 minutes, all of them within ten percent", async () => {
    const each = await failing();
    const waits: (number | null)[] = [];
    for (let failure = 1; failure <= 6; failure += 1) {
      await fail([each]);
      waits.push(await minutesUntilLook(each));
    }

    const expected = [1, 5, 15, 60, 60, 60];
    expected.forEach((minutes, index) => {
      expect(waits[index], `failure ${index + 1}`).to.be.within(0.899 * minutes, 1.101 * minutes);
    });
    expect(new Set(waits.slice(3)).size).to.equal(3);
  });

  it("is tried again at once where nobody knows what the target has, and by the usual times from then on", async () => {
    const each = await failing({});

    await fail([each], { code: "timed_out", unchanged: false });
    const first = await minutesUntilLook(each);
    await fail([each], { code: "timed_out", unchanged: false });
    const second = await minutesUntilLook(each);
    await fail([each]);
    const third = await minutesUntilLook(each);

    expect(first).to.be.within(-0.001, 0.001);
    expect(second).to.be.within(4.49, 5.51);
    expect(third, "doubt that a later failure does not end").to.be.within(13.49, 16.51);
  });

  it("is never tried again where there is no schedule, and no doubt", async () => {
    const each = await failing({});

    await fail([each]);

    expect(await minutesUntilLook(each)).to.equal(null);
    expect(await configurations.get(each.secretId)).to.include({ last_status: "failed", next_rotation: null });
  });

  it("leaves no doubt where values are brought to no target, or to none any more", async () => {
    const each = await failing({});
    const before = await configurations.put(each.secretId, { provider: "generated_value" });

    await fail([each], { code: "timed_out", unchanged: false });

    expect(before.status).to.equal(200);
    expect(await minutesUntilLook(each)).to.equal(null);
  });

  it("ends the doubt about a target that values are not brought to any more", async () => {
    const each = await failing({ provider: "generated_value", provider_settings: { length: 12 } });
    await server.sql("update rotation_config set unresolved = true where id = $1", [each.configId]);

    await fail([each], { code: "timed_out", unchanged: false });

    const [row] = await server.sql("select unresolved from rotation_config where id = $1", [each.configId]);
    expect(row.unresolved).to.equal(false);
    expect(await minutesUntilLook(each)).to.equal(null);
  });

  it("is noted also of a secret of which nothing was ever said", async () => {
    const { id, key } = await server.secret({ rotation: { enabled: true } });
    const config = await configurations.get(id);
    const [row] = await server.sql("select organization_id from secret where id = $1", [id]);

    await fail([{ organizationId: row.organization_id, configId: config.id, secretId: id, key }]);

    const after = await configurations.get(id);
    expect(after).to.include({ last_status: "failed", consecutive_failures: 1 });
    expect(after).to.deep.include({ provider: "generated_value", provider_settings: config.provider_settings });
  });

  it("is told of in the audit log when it is the first, and daily then", async () => {
    const each = await failing();
    await fail([each]);
    await fail([each], { message: "again" });
    const soon = await toldOf(each);
    await server.sql("update rotation_config set failure_told_at = now() - interval '1 day' where id = $1", [
      each.configId,
    ]);
    await fail([each], { code: "timed_out", message: "a day later", unchanged: false });
    await fail([each], { message: "and again" });
    const later = await toldOf(each);

    expect(soon).to.deep.equal([
      {
        actor_type: "system",
        outcome: "failure",
        resource_type: "secret",
        resource_name: each.key,
        project_id: server.projectId,
        reason: "the target said no",
        details: { config_id: each.configId, code: "refused", consecutive_failures: 1, unresolved: false },
      },
    ]);
    expect(later.slice(1).map(({ reason, details }) => ({ reason, details }))).to.deep.equal([
      {
        reason: "a day later",
        details: { config_id: each.configId, code: "timed_out", consecutive_failures: 3, unresolved: true },
      },
    ]);
  });

  it("is told of again when there was a success before it", async () => {
    const each = await failing({ enabled: true, provider: "generated_value", provider_settings: {} });
    const operator = await server.as(`operator-${randomUUID()}`, ["gateway:admin"]);
    await fail([each]);
    await configurations.execute(each.configId, operator);

    await fail([each], { message: "anew" });

    expect((await toldOf(each)).map(({ reason }) => reason)).to.deep.equal(["the target said no", "anew"]);
    expect(await configurations.get(each.secretId)).to.include({ consecutive_failures: 1 });
  });

  it("is one of many that are noted at once, in any order, while others are too", async () => {
    const all = [];
    for (let index = 0; index < 20; index += 1) all.push(await failing());

    await Promise.all([fail(all), fail(all.toReversed()), fail(all)]);

    for (const each of all) {
      expect(await configurations.get(each.secretId)).to.include({ consecutive_failures: 3 });
      expect(await toldOf(each)).to.have.length(1);
    }
  });

  it("is nothing for a secret that is gone for good, nor under the name of another organization", async () => {
    const [gone, other] = [await failing(), await failing()];
    await server.admin.rest("DELETE", `/api/v1/secrets/${gone.secretId}/permanent`);

    await fail([gone, { ...other, organizationId: randomUUID() }]);

    expect(await toldOf(gone)).to.deep.equal([]);
    expect(await configurations.get(other.secretId)).to.include({ last_status: "never", consecutive_failures: 0 });
  });
});
