import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { TestGateway } from "../../harness/gateway.ts";
import { eventually } from "../../harness/program.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { byCommand, Configurations } from "./configurations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);
const read = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body;
const failed = (unchanged: boolean) => ({
  case: "failed" as const,
  value: { message: "no", permanent: true, unchanged },
});

/** A rotation that somebody waits for, and the gateway that is to do it. */
async function waitedFor() {
  const environment = `environment-${randomUUID().slice(0, 8)}`;
  const gateway = await TestGateway.register(server, { environment });
  const { secret, config } = await configurations.of({ ...byCommand, enabled: true }, { environment, value: "first" });
  const rotation = configurations.rotate(secret.id, { reason: "because" });
  const claim = () => eventually("a task", () => gateway.claim());
  return { gateway, secret, config, rotation, claim };
}

describe("RotateSecret of what a gateway does", () => {
  it("answers once the gateway has done it, as if the server had", async () => {
    const { gateway, secret, rotation, claim } = await waitedFor();
    const assignment = await claim();

    await gateway.complete(assignment);
    const { status, body } = await rotation;

    expect(status).to.equal(200);
    expect(body).to.have.all.keys("id", "version", "rotated_at", "next_rotation");
    expect(body).to.include({ id: secret.id, version: 2 });
    expect(Date.parse(body.next_rotation) - Date.parse(body.rotated_at)).to.equal(30 * 86_400_000);
    expect(await read(secret.id)).to.include({ version: 2, value: assignment.value });
  });

  it("waits for the attempts that follow one which failed", async () => {
    const { gateway, rotation, claim } = await waitedFor();
    await gateway.complete(await claim(), { case: "failed", value: { message: "not yet" } });

    await gateway.complete(await claim());

    expect((await rotation).body.version).to.equal(2);
  });

  it("hears of it wherever the gateway reports", async () => {
    const replica = await server.startReplica();
    const { gateway, rotation, claim } = await waitedFor();
    const assignment = await claim();

    await gateway.at(urlOf(replica)).complete(assignment);

    expect((await rotation).status).to.equal(200);
  });

  it("says why it failed, whether the value in use is known, and which task it was", async () => {
    for (const [unchanged, left] of [
      [true, "the current value is unchanged"],
      [false, "whether the target has the new value is not known, it will be tried again"],
    ] as const) {
      const { gateway, secret, rotation, claim } = await waitedFor();
      const assignment = await claim();

      await gateway.complete(assignment, failed(unchanged));
      const { status, body } = await rotation;

      expect([status, body.error.code]).to.deep.equal([503, "SERVICE_UNAVAILABLE"]);
      expect(body.error.message).to.equal(`rotation failed: no; ${left}`);
      expect(body.error.details).to.deep.equal([{ field: "task_id", message: assignment.taskId }]);
      expect((await read(secret.id)).version).to.equal(1);
    }
  });

  it("waits for half a minute at most: then the task is named, which goes on", async function () {
    this.timeout(60_000);
    const { gateway, secret, config, rotation, claim } = await waitedFor();
    const assignment = await claim();
    await server.sql("update gateway_task set deadline_at = now() + interval '1 hour' where id = $1", [
      assignment.taskId,
    ]);

    const { status, headers, body } = await rotation;
    const meanwhile = await configurations.get(secret.id);
    await gateway.complete(assignment);

    expect([status, body.error.code]).to.deep.equal([503, "SERVICE_UNAVAILABLE"]);
    expect(body.error.message).to.equal("the rotation has not ended within 30 s, and goes on");
    expect(body.error.details).to.deep.equal([{ field: "task_id", message: assignment.taskId }]);
    expect(headers.get("retry-after")).to.match(/^\d+$/);
    expect(meanwhile.last_status).to.equal("running");
    expect((await configurations.tasks(config.id))[0].status).to.equal("succeeded");
    expect((await read(secret.id)).version).to.equal(2);
  });
});
