import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { useServer } from "../harness/server.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

describe("holdfast secret", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => administrator(server));

  describe("set and get", () => {
    it("give back the very bytes that standard input or a file held, with an empty value and line ends", async () => {
      const values = { PLAIN: "correct horse", LINES: "one\r\ntwo\n\n", UNICODE: "schlüssel 🔑" };
      writeFileSync(join(cli().home, "empty"), "");

      await Promise.all(Object.entries(values).map(([key, input]) => cli().print(`secret set ${key}`, { input })));
      await cli().print("secret set EMPTY --file empty");
      const read = Object.keys({ ...values, EMPTY: "" }).map((key) => cli().print(`secret get ${key}`));

      expect(await Promise.all(read)).to.deep.equal([...Object.values(values), ""]);
    });

    it("say whether a secret was created or updated, and to which version", async () => {
      const created = await cli().print("secret set DB_PASSWORD --env production --tag db --tag a,b --description x", {
        input: "1",
      });
      const updated = await cli().print(["secret", "set", "DB_PASSWORD", "--reason", "leaked"], { input: "2" });

      expect(created).to.equal("created DB_PASSWORD (production), version 1\n");
      expect(updated).to.equal("updated DB_PASSWORD (production) to version 2\n");
      const { description, tags } = await cli().json("secret get DB_PASSWORD");
      expect({ description, tags }).to.deep.equal({ description: "x", tags: ["db", "a,b"] });
      expect((await cli().json("secret history DB_PASSWORD"))[0].change_reason).to.equal("leaked");
    });

    it("take an id for a key, an older version, and the project by its name", async () => {
      const { id } = await server.secret({ key: "BY_ID", value: "first" });
      await cli().print(`secret set ${id}`, { input: "second" });

      const outputs = [
        await cli().print(`secret get ${id}`, { env: { HOLDFAST_PROJECT_ID: "" } }),
        await cli().print("secret get BY_ID --version 1"),
        await cli().print("secret get BY_ID --project default", { env: { HOLDFAST_PROJECT_ID: "" } }),
      ];

      expect(outputs).to.deep.equal(["second", "first", "second"]);
    });

    it("refuse to choose among environments, and list them", async () => {
      const { body: project } = await server.admin.rest("POST", "/api/v1/projects", {
        name: "many",
        key_scope: "environment",
      });
      const ofEnvironment = (environment?: string) =>
        server.secret({ key: "KEY", environment, project_id: project.id, value: environment ?? "none" });
      const secrets = [await ofEnvironment("staging"), await ofEnvironment("production"), await ofEnvironment()];

      const ambiguous = await cli().run("secret get KEY --project many");
      const chosen = await cli().print("secret get KEY --project many --env production");
      const without = await cli().print(["secret", "get", "KEY", "--project", "many", "--env", ""]);

      expect(ambiguous.status).to.equal(2);
      for (const { id, environment } of secrets)
        expect(ambiguous.stderr).to.include(`${id}  ${environment ?? "(no environment)"}\n`);
      expect([chosen, without]).to.deep.equal(["production", "none"]);
    });

    const onCommandLine: [string, string[]][] = [
      ["after the key", ["KEY", "hunter2"]],
      ["joined to the key", ["KEY=hunter2"]],
      ["as an option", ["KEY", "--value", "hunter2"]],
      ["joined to an option", ["KEY", "--value=hunter2"]],
      ["joined to an unknown option", ["KEY", "--secret=hunter2"]],
    ];
    for (const [where, args] of onCommandLine) {
      it(`refuse a value ${where} without repeating it, before anything is read or sent`, async () => {
        const { status, stdout, stderr } = await cli().run(["secret", "set", ...args], { env: { HOLDFAST_URL: "" } });

        expect({ status, stdout }).to.deep.equal({ status: 2, stdout: "" });
        expect(stderr).not.to.include("hunter2");
      });
    }

    const unusable: [string, string | Buffer, RegExp][] = [
      ["nothing at all", "", /standard input is empty/],
      ["bytes that are no text", Buffer.from([0xc3, 0x28]), /not UTF-8/],
    ];
    for (const [what, input, message] of unusable) {
      it(`refuse ${what} on standard input`, async () => {
        const { status, stderr } = await cli().run("secret set UNUSABLE", { input });

        expect(status).to.equal(2);
        expect(stderr).to.match(message);
      });
    }

    it("refuse a new life for a secret that is there, which would not get it", async () => {
      await cli().print("secret set SHORT --ttl-hours 1", { input: "1" });

      const { status, stderr } = await cli().run("secret set SHORT --ttl-hours 9", { input: "2" });

      expect(status).to.equal(2);
      expect(stderr).to.include("--ttl-hours is for a new secret");
      expect(await cli().print("secret get SHORT")).to.equal("1");
    });
  });

  describe("list", () => {
    it("shows every secret of the project and environment, however many pages there are", async () => {
      const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "large" });
      const keys = Array.from({ length: 101 }, (_, index) => `KEY_${String(index).padStart(3, "0")}`);
      for (const key of keys)
        await server.secret({ key, project_id: project.id, environment: key.endsWith("7") ? "e" : "" });

      const all = await cli().json("secret list --project large");
      const some = await cli().print("secret list --project large --env e --search key_00");

      expect(all.map(({ key }: { key: string }) => key)).to.deep.equal(keys);
      expect(some).to.match(/^KEY +ENVIRONMENT +VERSION +UPDATED +TAGS +DESCRIPTION\nKEY_007 +e +1 +\S+Z\n$/);
    });

    it("shows characters that could deceive a terminal as what they are", async () => {
      const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "hostile" });
      const fields = { description: "\u001b[2J\u009b31m gone", tags: ["\u202eevil"], environment: "a\tb" };
      await server.secret({ key: "HOSTILE", project_id: project.id, ...fields });

      const table = await cli().print("secret list --project hostile");
      const [record] = await cli().json("secret list --project hostile");

      expect(table).to.match(/^[ -~\n]*$/);
      expect(table).to.include("\\u{1b}[2J\\u{9b}31m gone").and.to.include("\\u{202e}evil").and.to.include("a\\u{9}b");
      expect(record.description).to.equal(fields.description);
    });
  });

  it("goes through a life: history, rollback, deletion, restoration and copies", async () => {
    await cli().print("secret set LIFE", { input: "one" });
    await cli().print("secret set LIFE", { input: "two" });

    const rolledBack = await cli().print(["secret", "rollback", "LIFE", "--to", "1", "--reason", "bad deploy"]);
    const history = await cli().print("secret history LIFE");
    const unasked = await cli().run("secret rm LIFE");
    const removed = await cli().run("secret rm LIFE --yes");
    const gone = await cli().run("secret get LIFE");
    const restored = await cli().print("secret restore LIFE");
    await server.admin.rest("POST", "/api/v1/projects", { name: "elsewhere" });
    const copied = await cli().print("secret copy LIFE --to-project elsewhere --to-env staging --new-key COPY");

    expect(rolledBack).to.equal("rolled LIFE back to version 1, which makes version 3\n");
    expect(history).to.match(
      /\n3 +\S+ +\S+ +rollback to 1 +bad deploy\n2 +\S+ +\S+ +manual_update\n1 +\S+ +\S+ +initial\n$/,
    );
    expect([unasked.status, unasked.stderr]).to.deep.equal([
      2,
      "holdfast: there is no terminal to ask on: agree with --yes\n",
    ]);
    expect([removed.status, removed.stdout, gone.status]).to.deep.equal([0, "", 5]);
    expect(restored).to.equal("restored LIFE at version 3\n");
    expect(copied).to.equal("copied LIFE to COPY (staging)\n");
    expect(await cli().print("secret get COPY --project elsewhere --env staging")).to.equal("one");
  });

  it("restores the one that is meant of several deleted under one key, and lists them when none is", async () => {
    const ids = [];
    for (const value of ["first", "second"]) {
      const { id } = await server.secret({ key: "TWICE", value });
      await server.admin.rest("DELETE", `/api/v1/secrets/${id}`);
      ids.push(id);
    }

    const ambiguous = await cli().run("secret restore TWICE");
    await cli().print(`secret restore ${ids[0]} --ttl-hours 5`);

    expect(ambiguous.status).to.equal(2);
    for (const id of ids) expect(ambiguous.stderr).to.include(`${id}  (no environment)  deleted`);
    const restored = await cli().json("secret get TWICE");
    expect(restored.value).to.equal("first");
    expect(restored.expires_at).to.be.a("string");
  });

  it("prints with --json exactly what the REST API answers", async () => {
    const fields = {
      environment: "e",
      tags: ["t"],
      metadata: { a: [1, { b: null }] },
      rotation: { enabled: true },
      ttl_hours: 1,
    };
    const { id } = await server.secret({ key: "EXACT", ...fields });
    const { body: other } = await server.admin.rest("POST", "/api/v1/projects", { name: "exact" });
    const rest = async (path: string) => (await server.admin.rest("GET", `/api/v1/${path}`)).body;

    const read = await cli().json("secret get EXACT");
    const versions = await cli().json("secret history EXACT");
    const list = await cli().json("secret list --search EXACT");
    const copy = await cli().json("secret copy EXACT --to-project exact");

    expect(read).to.deep.equal(await rest(`secrets/${id}`));
    expect(versions).to.deep.equal((await rest(`secrets/${id}/versions`)).data);
    expect(list).to.deep.equal((await rest(`secrets?project_id=${server.projectId}&search=EXACT`)).data);
    const { copied_from: source, ...record } = copy;
    expect(source).to.deep.equal({ secret_id: id, version: 1 });
    const { value: _, ...expected } = await rest(`secrets/${record.id}`);
    expect(record).to.deep.equal(expected);
    expect(record.project_id).to.equal(other.id);
  });
});
