import { expect } from "chai";
import type { Server } from "../../../src/server/server.ts";
import { until } from "../../faults/own-engines.ts";
import { type Answer, Client } from "../../harness/client.ts";
import { Receiver } from "../../harness/receiver.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { Configurations } from "./configurations.ts";
import { makeDue, rotationRounds } from "./rounds.ts";

const times = 50;

describe("A rotation that is due while three replicas look for it and are asked for it", function () {
  this.timeout(120_000);
  const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
  const configurations = new Configurations(server);
  let replicas: Server[];
  let clients: Client[];
  let receiver: Receiver;
  before(async () => {
    replicas = [server.server, await server.startReplica(), await server.startReplica()];
    clients = replicas.map((replica) => new Client(urlOf(replica), server.admin.token));
    receiver = await Receiver.start();
  });
  after(() => receiver.stop());

  const rotate = (secretId: string, by: Client) => by.rest("POST", `/api/v1/secrets/${secretId}/rotate`, {});
  const tasksOf = (secretId: string) =>
    server.sql("select status, requested_by from gateway_task where secret_id = $1", [secretId]);

  /** Lets all replicas look for what is due, and each be asked for it, at the same moment. */
  async function allAtOnce(secretId: string): Promise<Answer[]> {
    const looking = replicas.map(rotationRounds);
    const answers = await Promise.all(clients.map((client) => rotate(secretId, client)));
    await Promise.all(looking);
    await until(async () =>
      (await tasksOf(secretId)).every(({ status }) => status !== "pending" && status !== "running"),
    );
    return answers;
  }

  /** A due secret is due once; what else is done is what was asked for and answered. */
  async function expectOneEach(secretId: string, answers: readonly Answer[]): Promise<void> {
    const tasks = await tasksOf(secretId);
    const bySystem = tasks.filter(({ requested_by }) => requested_by === "system");
    const succeeded = answers.filter(({ status }) => status === 200);
    expect(tasks.map(({ status }) => status)).to.deep.equal(tasks.map(() => "succeeded"));
    expect(bySystem).to.have.length.at.most(1);
    expect(tasks).to.have.length(bySystem.length + succeeded.length);
    expect(tasks).to.have.length.at.least(1);
    expect(answers.filter(({ status }) => status !== 200 && status !== 409)).to.deep.equal([]);
    const { body } = await server.admin.rest("GET", `/api/v1/secrets/${secretId}/versions`);
    const versions = body.data.map(({ version }: { version: number }) => version);
    expect(versions).to.deep.equal(Array.from({ length: tasks.length + 1 }, (_, index) => tasks.length + 1 - index));
    expect(new Set(succeeded.map((answer) => answer.body.version)).size).to.equal(succeeded.length);
  }

  it("is done once for its time, and else as often as was answered, where the server only makes a value", async () => {
    let once = 0;
    for (let time = 0; time < times; time += 1) {
      const { secret } = await configurations.of({ enabled: true });
      await makeDue(server, secret.id);

      const answers = await allAtOnce(secret.id);

      await expectOneEach(secret.id, answers);
      if ((await tasksOf(secret.id)).length === 1) once += 1;
    }
    expect(once, "mostly those who come second are told so").to.be.above(0);
  });

  it("is never done by two at a time where a webhook is told the value", async () => {
    for (let time = 0; time < times; time += 1) {
      const path = `/hook/${time}`;
      const { secret } = await configurations.of({
        enabled: true,
        provider: "webhook",
        provider_settings: { url: receiver.url(path) },
      });
      await makeDue(server, secret.id);

      const answers = await allAtOnce(secret.id);

      await expectOneEach(secret.id, answers);
      const events = receiver.requests.filter((request) => request.path === path).map(({ body }) => body);
      const inTurn = events.flatMap((event, index) =>
        event.event === "rotation.apply" ? [[event.task_id, event.value, events[index + 1]?.task_id]] : [],
      );
      for (const [taskId, , verified] of inTurn) expect(verified, "nobody comes between").to.equal(taskId);
      const { body } = await server.admin.rest("GET", `/api/v1/secrets/${secret.id}`);
      expect(body.value, "what the target was told last").to.equal(inTurn.at(-1)?.[1]);
    }
  });
});
