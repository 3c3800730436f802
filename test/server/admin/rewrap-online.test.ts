import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { readConfig } from "../../../src/server/config.ts";
import { readMasterKey } from "../../../src/server/seal/master-key.ts";
import { type Place, Seal } from "../../../src/server/seal/seal.ts";
import { organizationKeys } from "../../../src/server/seal/wrapped-keys.ts";
import { until } from "../../faults/own-engines.ts";
import { Client } from "../../harness/client.ts";
import { addOrganizationKeys } from "../../harness/organization-keys.ts";
import { TestServer, urlOf } from "../../harness/server.ts";
import { startRewrap } from "./rewrapping.ts";

const manyKeys = 4000;

describe("Rewrapping beside a running server", function () {
  this.timeout(60_000);
  let server: TestServer;
  let both: Record<string, string>;
  beforeEach(async () => {
    server = new TestServer({});
    await server.start();
    const { SERVICE_MASTER_KEY: old = "" } = server.environment();
    both = { MASTER_KEY: randomBytes(32).toString("base64"), MASTER_KEY_PREVIOUS: old };
  });
  afterEach(() => server.stop());

  const environment = (settings: Record<string, string>) => ({
    ...server.environment(),
    ...Object.fromEntries(Object.entries(settings).map(([name, value]) => [`SERVICE_${name}`, value])),
  });
  const masterKey = (settings: Record<string, string> = {}) => readMasterKey(readConfig(environment(settings)), false);
  /** What a server with these settings opens that has no key in its memory yet. */
  const newSeal = (settings: Record<string, string> = {}) => new Seal(server.server.core.db, masterKey(settings));
  const onlyNew = () => ({ MASTER_KEY: both["MASTER_KEY"] ?? "" });

  /** A value of an organization, sealed as a secret's is; answers what it is to a server. */
  async function sealedValue(organizationId: string): Promise<(seal: Seal) => Promise<string>> {
    const { db } = server.server.core;
    const seal = newSeal(both);
    const place: Place = { organizationId, kind: "secret.value", recordId: randomUUID(), version: 1 };
    const { key, wrapped } = await seal.createDataKey(db, organizationId, place.recordId);
    const sealed = seal.seal(key, place, Buffer.from("value"));
    return async (reader) => {
      const opened = await reader.dataKey(db, organizationId, place.recordId, wrapped);
      return reader.open(opened, place, sealed).toString();
    };
  }

  it("fails no call, while some thousand keys change", async () => {
    const ids = await addOrganizationKeys(server.server.core.db, masterKey().current, manyKeys);
    const values = await Promise.all(ids.slice(0, 200).map(sealedValue));
    const replica = await server.startReplica(both);
    const admin = new Client(urlOf(replica), server.admin.token);
    const { id: secretId } = await server.secret({ value: "value" });
    const outcomes = new Set<string>();
    let reads = 0;
    const stopping = new AbortController();
    const repeat = async (work: (round: number) => Promise<string>) => {
      for (let round = 0; !stopping.signal.aborted; round++) {
        outcomes.add(await work(round).catch((error: unknown) => String(error)));
        reads += 1;
      }
    };
    const readSealed = (round: number) => (values[(round * 7) % values.length] ?? expect.fail())(newSeal(both));
    const readSecret = async () => (await admin.rest("GET", `/api/v1/secrets/${secretId}`)).body.value;
    const makeOrganization = async () => {
      const { body, status } = await admin.rest("POST", "/api/v1/organizations", { name: randomUUID() });
      if (status !== 201) return JSON.stringify(body);
      return (await sealedValue(body.id))(newSeal(both));
    };
    const load = [readSealed, readSealed, readSecret, makeOrganization].map(repeat);

    const { summary, steps } = await startRewrap(environment(both)).ended;
    const readsMeanwhile = reads;
    stopping.abort();
    await Promise.all(load);

    expect([...outcomes]).to.deep.equal(["value"]);
    expect(readsMeanwhile).to.be.above(100);
    expect(steps).to.have.length.above(100);
    expect(summary?.unopened).to.equal(0);
    expect(summary?.rewrapped).to.be.above(manyKeys);
    const afterwards = await Promise.all(values.map((value) => value(newSeal(onlyNew()))));
    expect(new Set(afterwards)).to.deep.equal(new Set(["value"]));
  });

  it("may be killed with SIGKILL amid a change, once and again, and is finished by another run", async () => {
    const ids = await addOrganizationKeys(server.server.core.db, masterKey().current, manyKeys);
    const inOrder = ids.toSorted();
    const openedByNew: number[] = [];

    for (const at of [100, 1500, 3000]) {
      const lock = new pg.Client(server.databaseUrl);
      await lock.connect();
      await lock.query("begin");
      await lock.query("select from organization_key where organization_id = $1 for update", [inOrder[at]]);
      const run = startRewrap(environment(both));
      await until(async () => (await waitingForALock()) === 1);
      run.kill();
      const { summary } = await run.ended;
      await lock.end();
      await until(async () => (await waitingForALock()) === 0);

      expect(summary).to.equal(undefined);
      openedByNew.push(await countOpened(onlyNew()));
      expect(await countOpened(both)).to.equal(manyKeys + 1);
    }
    const { summary } = await startRewrap(environment(both)).ended;

    expect(openedByNew[0]).to.be.above(0);
    expect(openedByNew).to.deep.equal([...new Set(openedByNew)].toSorted((one, other) => one - other));
    expect(openedByNew[2]).to.be.below(manyKeys);
    expect(summary?.unopened).to.equal(0);
    expect(await countOpened(onlyNew())).to.equal(manyKeys + 1);
  });

  async function waitingForALock(): Promise<number> {
    const [row] = await server.sql(
      `select count(*)::int as backends from pg_stat_activity
       where application_name = 'holdfast-admin' and wait_event_type = 'Lock' and datname = current_database()`,
    );
    return row.backends;
  }

  async function countOpened(settings: Record<string, string>): Promise<number> {
    const key = masterKey(settings);
    const rows = await server.sql("select organization_id as id, wrapped from organization_key");
    const attempts = rows.map(({ id, wrapped }) => key.unwrap(organizationKeys.place(id), wrapped));
    return (await Promise.allSettled(attempts)).filter(({ status }) => status === "fulfilled").length;
  }
});
