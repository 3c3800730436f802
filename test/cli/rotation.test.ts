import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { TestGateway } from "../harness/gateway.ts";
import { eventually } from "../harness/program.ts";
import { Receiver } from "../harness/receiver.ts";
import { useServer } from "../harness/server.ts";
import { answers } from "../harness/trouble.ts";
import { type GatewaySecret, gatewaySecret } from "../server/gateways/rotations.ts";
import { answerLimited, startFront } from "./front.ts";
import { administrator, type Run, useHoldfast } from "./holdfast.ts";

const days = 86_400_000;

describe("holdfast", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => administrator(server));
  const api = (verb: string, path: string, body?: object) => server.admin.rest(verb, `/api/v1${path}`, body);
  const configure = (id: string, fields: object) => api("PUT", `/secrets/${id}/rotation-config`, fields);
  const configOf = async (id: string) => (await api("GET", `/secrets/${id}/rotation-config`)).body;
  const newProject = async () => {
    const name = `project-${randomBytes(4).toString("hex")}`;
    const { body } = await api("POST", "/projects", { name, key_scope: "environment" });
    return { name, id: body.id as string };
  };
  let receiver: Receiver;
  before(async () => {
    receiver = await Receiver.start();
  });
  after(() => receiver.stop());

  /** A secret whose new values go to the receiver, which refuses them. */
  const refusedSecret = async (fields: Record<string, unknown>) => {
    receiver.behave(() => answers(403));
    const { id } = await server.secret(fields);
    await configure(id, { provider: "webhook", provider_settings: { url: receiver.url() } });
    return id as string;
  };

  describe("secret rotate", () => {
    /** Of a secret whose gateway never comes: the server takes half a minute to say so, which the other tests fill. */
    let unserved: { readonly secret: GatewaySecret; readonly ended: Promise<Run> };
    before(async () => {
      const secret = await gatewaySecret(server, "nowhere", { key: "UNSERVED" });
      unserved = { secret, ended: cli().run("secret rotate UNSERVED") };
    });

    it("says which version there is then, and when the next rotation is due", async () => {
      const { id } = await server.secret({ key: "SCHEDULED", rotation: { enabled: true, interval_days: 10 } });

      const printed = await cli().print(["secret", "rotate", "SCHEDULED", "--reason", "somebody left"]);

      const { next_rotation: next, last_rotated: last } = await configOf(id);
      expect(printed).to.equal(`rotated SCHEDULED to version 2; the next one is due ${next.slice(0, 19)}Z\n`);
      expect(Date.parse(next) - Date.parse(last)).to.equal(10 * days);
      const [newest] = (await api("GET", `/secrets/${id}/versions`)).body.data;
      expect(newest).to.include({ change_type: "rotation", change_reason: "somebody left" });
    });

    it("says so where no other one is scheduled, and takes an id", async () => {
      const { id } = await server.secret();

      expect(await cli().print(`secret rotate ${id}`)).to.equal(
        `rotated ${id} to version 2; no other one is scheduled\n`,
      );
    });

    it("takes the new value from standard input, exactly, and from nowhere else", async () => {
      await server.secret({ key: "GIVEN" });

      await cli().print("secret rotate GIVEN --value-stdin", { input: "line one\nline two\n" });
      const read = await cli().print("secret get GIVEN");
      const empty = await cli().run("secret rotate GIVEN --value-stdin", { input: "" });
      const typed = await cli().run("secret rotate GIVEN hunter2");
      const option = await cli().run("secret rotate GIVEN --value=hunter2");

      expect(read).to.equal("line one\nline two\n");
      for (const { status, stderr } of [empty, typed, option]) {
        expect(status).to.equal(2);
        expect(stderr).not.to.include("hunter2");
      }
      expect((await cli().json("secret get GIVEN")).version).to.equal(2);
    });

    it("reads nothing from standard input unless it is told to", async () => {
      await server.secret({ key: "UNASKED" });

      await cli().print("secret rotate UNASKED", { input: "not this" });

      expect(await cli().print("secret get UNASKED")).to.match(/^[A-Za-z0-9]{32}$/);
    });

    it("does nothing when another version is the current one", async () => {
      await server.secret({ key: "EXPECTED" });

      const other = await cli().run("secret rotate EXPECTED --expect-version 2");
      const right = await cli().print("secret rotate EXPECTED --expect-version 1");

      expect(other.status).to.equal(6);
      expect(right).to.match(/^rotated EXPECTED to version 2;/);
    });

    it("prints with --json what the REST API answers", async () => {
      const { id } = await server.secret({ key: "RECORD", rotation: { enabled: true } });

      const printed = await cli().json("secret rotate RECORD");

      const { last_rotated, next_rotation } = await configOf(id);
      expect(printed).to.deep.equal({ id, version: 2, rotated_at: last_rotated, next_rotation });
    });

    it("says why a target refused, that nothing changed, and what says more", async () => {
      const id = await refusedSecret({ key: "REFUSED" });

      const { status, stdout, stderr } = await cli().run("secret rotate REFUSED");

      expect({ status, stdout }).to.deep.equal({ status: 8, stdout: "" });
      expect(stderr).to.match(/^holdfast: rotation failed: .*403.*; the current value is unchanged\n/);
      expect(stderr).to.match(new RegExp(`\n  what becomes of it, holdfast rotation status ${id} says\n$`));
    });

    it("waits for a gateway", async () => {
      const gateway = await TestGateway.register(server, { environment: "lisbon" });
      await gatewaySecret(server, "lisbon", { key: "BY_GATEWAY" });
      const { ended } = cli().start("secret rotate BY_GATEWAY");

      const task = await eventually("there is a task", () => gateway.claim());
      await gateway.complete(task, { case: "succeeded", value: {} });

      expect((await ended).stdout).to.match(/^rotated BY_GATEWAY to version 2;/);
    });

    it("is for who has rotation:execute", async () => {
      const { id } = await server.secret();
      const { token = "" } = await server.as("reader", ["viewer"]);

      const { status, stderr } = await cli().run(`secret rotate ${id}`, { env: { HOLDFAST_TOKEN: token } });

      expect(status).to.equal(4);
      expect(stderr).to.include("permission rotation:execute is required");
    });

    it("names the task that goes on when no gateway did it in time, and what says more", async () => {
      const { status, stdout, stderr } = await unserved.ended;

      const [task] = (await api("GET", `/rotation/configs/${unserved.secret.configId}/tasks`)).body;
      expect({ status, stdout }).to.deep.equal({ status: 8, stdout: "" });
      expect(stderr).to.include(`\n  task_id ${task.id}\n`);
      expect(stderr).to.match(
        new RegExp(`\n  what becomes of it, holdfast rotation status ${unserved.secret.id} says\n$`),
      );
      expect(task.status).to.equal("pending");
    });
  });

  describe("rotation status", () => {
    it("shows the secrets of a project that have a schedule", async () => {
      const project = await newProject();
      const secret = (key: string, fields: object = {}) => server.secret({ key, project_id: project.id, ...fields });
      const enabled = { rotation: { enabled: true, interval_days: 7 } };
      await secret("PLAIN");
      const { id: used } = await secret("USED", { ...enabled, environment: "production" });
      await api("POST", `/secrets/${used}/rotate`, {});
      const failing = await refusedSecret({ key: "FAILING", project_id: project.id });
      await configure(failing, { enabled: true });
      await api("POST", `/secrets/${failing}/rotate`, {});
      const { id: far } = await secret("FAR", { environment: "staging" });
      const command = { driver: "command", driver_settings: { command: "rotate-app" } };
      await configure(far, { enabled: true, provider: "gateway", provider_settings: command });

      const shown = await cli().print(`rotation status --project ${project.name}`);
      const ofOne = await cli().print(`rotation status --project ${project.name} --env staging`);

      expect(shown).to.match(/^KEY +PROVIDER +ENABLED +NEXT +LAST +STATUS +FAILURES +ERROR\n/);
      expect(shown).to.match(/\nUSED \(production\) +generated_value +yes +\S+Z +\S+Z +succeeded +0\n/);
      expect(shown).to.match(/\nFAILING +webhook +yes +\S+Z +- +failed +1 +refused: .*403.*\n/);
      expect(shown).to.match(/\nFAR \(staging\) +gateway of staging +yes +\S+Z +- +never +0\n/);
      expect(shown.trim().split("\n")).to.have.length(4);
      expect(ofOne.trim().split("\n")).to.have.length(2);
    });

    it("shows those that are named, whether they have a schedule or not", async () => {
      const [one, other] = [await server.secret({ key: "NAMED_ONE" }), await server.secret()];

      const shown = await cli().print(`rotation status NAMED_ONE ${other.id}`);
      const records = await cli().json(`rotation status NAMED_ONE ${other.id}`);

      expect(shown).to.match(/\nNAMED_ONE +generated_value +no +- +- +never +0\n/);
      expect(shown).to.match(new RegExp(`\n${other.id} +generated_value +no `));
      expect(records).to.deep.equal([await configOf(one.id), await configOf(other.id)]);
    });

    it("shows one in full, with its last tasks", async () => {
      const id = await refusedSecret({ key: "IN_FULL" });
      await configure(id, { grace_period_days: 3, interval_days: 14 });
      await api("POST", `/secrets/${id}/rotate`, {});

      const shown = await cli().print("rotation status IN_FULL");

      const { id: config } = await configOf(id);
      const [task] = (await api("GET", `/rotation/configs/${config}/tasks`)).body;
      for (const line of [
        `secret +${id}`,
        `configuration +${config}`,
        "provider +webhook",
        "enabled +no",
        "interval +14 days",
        "grace period +3 days",
        "next rotation +-",
        "last status +failed",
        "failures +1",
        "last error +refused: .*403.*",
      ]) {
        expect(shown).to.match(new RegExp(`(^|\n)${line}\n`));
      }
      expect(shown).to.match(/\n\nTASK +STATUS +ATTEMPT +CREATED +FINISHED +ERROR\n/);
      expect(shown).to.match(new RegExp(`\n${task.id} +failed +1 of 1 +\\S+Z +\\S+Z +.*403.*\n$`));
    });

    it("prints with --json what the REST API answers of it", async () => {
      const { id } = await server.secret({ key: "AS_JSON" });

      expect(await cli().json("rotation status AS_JSON")).to.deep.equal(await configOf(id));
      expect(await cli().json(`rotation status --project ${(await newProject()).name}`)).to.deep.equal([]);
    });

    it("goes on past the limit of requests, and says so", async () => {
      const project = await newProject();
      for (const key of ["A", "B", "C"]) {
        await server.secret({ key, project_id: project.id, rotation: { enabled: true } });
      }
      let calls = 0;
      const front = await startFront({
        target: server.url,
        intercept: ({ url }, response) =>
          url?.endsWith("GetRotationConfig") === true && (calls += 1) === 2 && answerLimited(response, 1),
      });

      const { status, stdout, stderr } = await cli().run(`rotation status --project ${project.id}`, {
        env: { HOLDFAST_URL: front.url },
      });
      await front.close();

      expect(status).to.equal(0);
      expect(stdout.trim().split("\n")).to.have.length(4);
      expect(stderr).to.equal("holdfast: the limit of requests is reached; going on in 1 s\n");
    });

    it("says that there is no such secret", async () => {
      const { status, stderr } = await cli().run("rotation status NOWHERE");

      expect(status).to.equal(5);
      expect(stderr).to.equal("holdfast: there is no secret NOWHERE\n");
    });
  });
});
