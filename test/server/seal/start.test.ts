import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { ServerProcess } from "../../faults/server-process.ts";
import { awsEnvironment, useKms } from "../../harness/kms.ts";
import { useServer } from "../../harness/server.ts";

describe("The start of a server", function () {
  // A process takes a second to start, and several on a busy machine.
  this.timeout(60_000);
  const kms = useKms();
  const server = useServer();
  const processes: ServerProcess[] = [];
  afterEach(() => Promise.all(processes.splice(0).map((each) => each.kill())));

  const start = (settings: Record<string, string>) => {
    const given = Object.entries(settings).map(([name, value]) => [`SERVICE_${name}`, value]);
    const environment = { ...awsEnvironment, ...server.environment(), ...Object.fromEntries(given) };
    const started = new ServerProcess({ ...environment, SERVICE_LOG_LEVEL: "info" });
    processes.push(started);
    return started;
  };
  const inKms = (keyId: string) => ({
    MASTER_KEY: "",
    MASTER_KEY_KMS_KEY_ID: keyId,
    MASTER_KEY_KMS_ENDPOINT: kms.url,
  });
  const anotherKey = () => randomBytes(32).toString("base64");
  const refusal = async (settings: Record<string, string>) => {
    const started = start(settings);
    expect(await started.ended).to.equal(1);
    expect(started.stderr).to.match(/^holdfast: [^\n]+\n$/);
    return started.stderr.replace("holdfast: ", "").trim();
  };

  it("ends with one line when no master key that is set is the database's", async () => {
    const [one, two, ofKms] = await Promise.all([
      refusal({ MASTER_KEY: anotherKey() }),
      refusal({ MASTER_KEY: anotherKey(), MASTER_KEY_PREVIOUS: anotherKey() }),
      refusal({ ...inKms(kms.createKey()), MASTER_KEY_PREVIOUS: anotherKey() }),
    ]);

    const sealed = "the key that this database was sealed with";
    expect(one).to.equal(`SERVICE_MASTER_KEY is not ${sealed}`);
    expect(two).to.equal(`neither SERVICE_MASTER_KEY nor SERVICE_MASTER_KEY_PREVIOUS is ${sealed}`);
    expect(ofKms).to.equal(`neither SERVICE_MASTER_KEY_KMS_KEY_ID nor SERVICE_MASTER_KEY_PREVIOUS is ${sealed}`);
  });

  it("ends with one line when KMS is away, or does not have the key", async () => {
    await server.sql("delete from service_key");
    const nowhere = { ...inKms("alias/holdfast"), MASTER_KEY_KMS_ENDPOINT: "http://127.0.0.1:1" };

    const [away, unknown] = await Promise.all([refusal(nowhere), refusal(inKms("alias/holdfast"))]);

    const subject = "SERVICE_MASTER_KEY_KMS_KEY_ID: AWS KMS cannot be used";
    expect(away).to.equal(`${subject} (ECONNREFUSED)`);
    expect(unknown).to.equal(`${subject} (NotFoundException: Key 'alias/holdfast' does not exist)`);
  });

  it("says that a previous master key is set", async () => {
    const started = start({ MASTER_KEY_PREVIOUS: anotherKey() });
    await started.ready();

    expect(started.stdout).to.include("SERVICE_MASTER_KEY_PREVIOUS is set; remove it when");
  });
});
