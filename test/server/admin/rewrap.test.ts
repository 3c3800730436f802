import { randomBytes } from "node:crypto";
import { expect } from "chai";
import type { Progress } from "../../../src/server/admin/progress.ts";
import { type RewrapOptions, rewrapIn, type Summary } from "../../../src/server/admin/rewrap.ts";
import { ConfigError, readConfig } from "../../../src/server/config.ts";
import { readMasterKey } from "../../../src/server/seal/master-key.ts";
import { organizationKeys, serviceKeys } from "../../../src/server/seal/wrapped-keys.ts";
import { Client } from "../../harness/client.ts";
import { useKms } from "../../harness/kms.ts";
import { addOrganizationKeys } from "../../harness/organization-keys.ts";
import { TestServer, urlOf } from "../../harness/server.ts";

const newKey = () => randomBytes(32).toString("base64");

describe("Rewrapping", () => {
  const kms = useKms();
  let server: TestServer;
  /** The key that the server was started with. */
  let old: string;
  beforeEach(async () => {
    server = new TestServer({});
    await server.start();
    old = server.environment()["SERVICE_MASTER_KEY"] ?? "";
  });
  afterEach(() => server.stop());

  const masterKeyOf = (settings: Record<string, string>) => {
    const given = Object.entries(settings).map(([name, value]) => [`SERVICE_${name}`, value]);
    return readMasterKey(readConfig({ ...server.environment(), ...Object.fromEntries(given) }), false);
  };
  const rewrap = (settings: Record<string, string>, options: Partial<RewrapOptions> = {}): Promise<Summary> =>
    rewrapIn(
      { database: server.server.core.db, masterKey: masterKeyOf(settings) },
      { progress: () => {}, signal: new AbortController().signal, ...options },
    );
  const read = async (id: string, settings: Record<string, string>) => {
    const replica = await server.startReplica(settings);
    const { body } = await new Client(urlOf(replica), server.admin.token).rest("GET", `/api/v1/secrets/${id}`);
    return body.value;
  };
  const addKeys = (count: number) => addOrganizationKeys(server.server.core.db, masterKeyOf({}).current, count);
  /** Names and organizations whose keys the master key of these settings opens, those of the previous one aside. */
  const openedBy = async (settings: Record<string, string>) => {
    const { current } = masterKeyOf(settings);
    const rows = [
      ...(await server.sql("select name as id, wrapped from service_key")).map((row) => ({
        keys: serviceKeys,
        ...row,
      })),
      ...(await server.sql("select organization_id as id, wrapped from organization_key")).map((row) => ({
        keys: organizationKeys,
        ...row,
      })),
    ];
    const opened = await Promise.allSettled(
      rows.map(({ keys, id, wrapped }) => current.unwrap(keys.place(id), wrapped)),
    );
    return rows.filter((_, at) => opened[at]?.status === "fulfilled").map(({ id }) => id as string);
  };

  it("changes from a local key to one in AWS KMS and to another local one; each alone then opens everything", async () => {
    const { id } = await server.secret({ value: "kept" });
    await addKeys(40);
    const total = (await openedBy({})).length;
    const atKms = { MASTER_KEY_KMS_ENDPOINT: kms.url };
    const [keyId, last] = [kms.createKey(), newKey()];

    const toKms = await rewrap({
      ...atKms,
      MASTER_KEY: "",
      MASTER_KEY_KMS_KEY_ID: keyId,
      MASTER_KEY_PREVIOUS: old,
    });
    const byKms = await read(id, { ...atKms, MASTER_KEY: "", MASTER_KEY_KMS_KEY_ID: keyId });
    const openedByOld = await openedBy({});
    const toLocal = await rewrap({ ...atKms, MASTER_KEY: last, MASTER_KEY_PREVIOUS_KMS_KEY_ID: keyId });
    const byLast = await read(id, { MASTER_KEY: last });

    expect([byKms, byLast]).to.deep.equal(["kept", "kept"]);
    const whole = { rewrapped: total, total, unopened: 0, examples: [] };
    expect([toKms, toLocal]).to.deep.equal([whole, whole]);
    expect(openedByOld).to.deep.equal([]);
    expect(await openedBy({ MASTER_KEY: last })).to.have.length(total);
  });

  it("changes from one key in AWS KMS to another", async () => {
    const { id } = await server.secret({ value: "kept" });
    const [one, other] = [kms.createKey(), kms.createKey()];
    const atKms = (keyId: string) => ({
      MASTER_KEY: "",
      MASTER_KEY_KMS_KEY_ID: keyId,
      MASTER_KEY_KMS_ENDPOINT: kms.url,
    });

    await rewrap({ ...atKms(one), MASTER_KEY_PREVIOUS: old });
    const { unopened } = await rewrap({ ...atKms(other), MASTER_KEY_PREVIOUS_KMS_KEY_ID: one });

    expect(unopened).to.equal(0);
    expect(await read(id, atKms(other))).to.equal("kept");
    expect(await openedBy(atKms(one))).to.deep.equal([]);
  });

  it("leaves alone what the current key has wrapped already, such as new organizations", async () => {
    const both = { MASTER_KEY: newKey(), MASTER_KEY_PREVIOUS: old };
    const replica = await server.startReplica(both);
    const admin = new Client(urlOf(replica), server.admin.token);
    await admin.rest("POST", "/api/v1/organizations", { name: "made amid the change" });
    const before = await openedBy({});

    const first = await rewrap(both);
    const rows = await server.sql("select wrapped from organization_key order by organization_id");
    const second = await rewrap(both);

    expect(first).to.include({ rewrapped: before.length, total: before.length + 1, unopened: 0 });
    expect(second).to.include({ rewrapped: 0, total: before.length + 1, unopened: 0 });
    expect(await server.sql("select wrapped from organization_key order by organization_id")).to.deep.equal(rows);
  });

  it("tells how far it is: first what it rewraps, then what it checks", async () => {
    await addKeys(100);
    const steps: Progress[] = [];

    const { total } = await rewrap(
      { MASTER_KEY: newKey(), MASTER_KEY_PREVIOUS: old },
      { progress: (state) => steps.push(state) },
    );

    const phases = Object.groupBy(steps, ({ phase }) => phase);
    expect(Object.keys(phases)).to.deep.equal(["rewrapping", "checking"]);
    for (const ofPhase of Object.values(phases)) {
      const done = ofPhase.map((step) => step.done);
      expect(done).to.have.length.above(3);
      expect(done).to.deep.equal([...new Set(done)].toSorted((a, b) => a - b));
      expect(ofPhase.at(-1)).to.include({ done: total, total, secondsLeft: 0 });
      for (const step of ofPhase) {
        expect(step.perSecond).to.be.above(0);
        expect(step.secondsLeft).to.be.closeTo((total - step.done) / step.perSecond, 1e-6);
      }
    }
  });

  it("stops when it is told to, with what it has done, and changes the service keys last", async () => {
    const ids = await addKeys(200);
    const both = { MASTER_KEY: newKey(), MASTER_KEY_PREVIOUS: old };
    const stopping = new AbortController();

    const stopped = await rewrap(both, {
      progress: ({ done }) => done >= 100 && stopping.abort(),
      signal: stopping.signal,
    }).catch((error: unknown) => error);
    const amid = await openedBy(both);
    const finished = await rewrap(both);

    expect(stopped).to.equal(stopping.signal.reason);
    expect(amid).to.have.length.within(100, ids.length);
    expect(amid).not.to.include("token-signing");
    expect(finished.rewrapped).to.equal(finished.total - amid.length);
    expect(finished.unopened).to.equal(0);
  });

  it("without a previous key counts only, and refuses when one is needed", async () => {
    const [checked, refused] = [
      await rewrap({}),
      await rewrap({ MASTER_KEY: newKey() }).catch((error: unknown) => error),
    ];

    expect(checked).to.include({ rewrapped: 0, unopened: 0 });
    expect(checked.total).to.be.above(3);
    expect(refused).to.be.instanceOf(ConfigError);
    expect((refused as Error).message).to.equal(
      `SERVICE_MASTER_KEY_PREVIOUS is needed: SERVICE_MASTER_KEY does not open ${checked.total} of ${checked.total} keys`,
    );
  });

  it("goes past keys that neither opens, and names them", async () => {
    const ids = await addKeys(50);
    const [damaged, moved] = ids.toSorted();
    await server.sql("update organization_key set wrapped = substr(wrapped, 2) where organization_id = $1", [damaged]);
    await server.sql(
      `update organization_key set wrapped = (select wrapped from organization_key where organization_id = $2)
       where organization_id = $1`,
      [moved, ids.toSorted()[2]],
    );
    const both = { MASTER_KEY: newKey(), MASTER_KEY_PREVIOUS: old };

    const { total, rewrapped, unopened, examples } = await rewrap(both);

    expect({ unopened, rewrapped }).to.deep.equal({ unopened: 2, rewrapped: total - 2 });
    expect(examples).to.deep.equal([damaged, moved].map((id) => organizationKeys.place(id ?? "")));
  });

  it("changes nothing with a wrong previous key", async () => {
    const rows = await server.sql("select * from organization_key");

    const { rewrapped, total, unopened } = await rewrap({ MASTER_KEY: newKey(), MASTER_KEY_PREVIOUS: newKey() });

    expect({ rewrapped, unopened }).to.deep.equal({ rewrapped: 0, unopened: total });
    expect(await server.sql("select * from organization_key")).to.deep.equal(rows);
  });

  it("twice at once ends as it does once", async () => {
    await addKeys(300);
    const both = { MASTER_KEY: newKey(), MASTER_KEY_PREVIOUS: old };

    const [one, other] = await Promise.all([rewrap(both), rewrap(both)]);

    expect(one.rewrapped + other.rewrapped).to.equal(one.total);
    expect(await rewrap(both)).to.include({ rewrapped: 0, unopened: 0 });
  });
});
