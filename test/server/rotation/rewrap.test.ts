import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { rewrapIn } from "../../../src/server/admin/rewrap.ts";
import { readConfig } from "../../../src/server/config.ts";
import { readMasterKey } from "../../../src/server/seal/master-key.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { byCommand, Configurations } from "./configurations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);

describe("Rewrapping to another master key", () => {
  it("leaves credentials and candidates readable, amid a chain of attempts", async () => {
    const gateway = await TestGateway.register(server, { environment: "production" });
    const credentials = { password: "admin's" };
    const { secret, config } = await configurations.of({ ...byCommand, credentials }, { environment: "production" });
    await configurations.execute(config.id, server.admin);
    const before = await gateway.claim();
    if (before === undefined) throw new Error("there is nothing to claim");
    await gateway.complete(before, { case: "failed", value: { message: "not yet" } });
    const old = server.environment()["SERVICE_MASTER_KEY"] ?? "";
    const next = { MASTER_KEY: randomBytes(32).toString("base64") };
    const both = { ...server.environment(), SERVICE_MASTER_KEY: next.MASTER_KEY, SERVICE_MASTER_KEY_PREVIOUS: old };

    const { unopened } = await rewrapIn(
      { database: server.server.core.db, masterKey: readMasterKey(readConfig(both), false) },
      { progress: () => {}, signal: new AbortController().signal },
    );
    const replica = gateway.at(urlOf(await server.startReplica(next)));
    const after = await replica.claim();
    if (after !== undefined) await replica.complete(after);

    expect(unopened).to.equal(0);
    expect(after).to.deep.include({ attempt: 2, value: before.value, previousValue: "v1", credentials });
    const [{ version }] = await server.sql("select version from secret where id = $1", [secret.id]);
    expect(version).to.equal(2);
  });
});
