import { type DescMessage, type Message, ScalarType, toJson } from "@bufbuild/protobuf";
import { expect } from "chai";
import { permissions } from "../../src/server/auth/roles.ts";
import { bindingsOf, type RestMethod } from "../../src/server/wire/http-rule.ts";
import { policyOf } from "../../src/server/wire/policy.ts";
import type { Client } from "../harness/client.ts";
import { TestGateway } from "../harness/gateway.ts";
import { Host } from "../harness/host.ts";
import { type TestServer, useServer } from "../harness/server.ts";
import { doorsOf } from "./caller.ts";
import { callerOf, nameOf, type Sample, samples } from "./samples.ts";
import { allMethods } from "./services.ts";

const methods = await allMethods();

/** What is different in every answer by nature: ids, times, generated names and credentials. */
function withoutVariables(schema: DescMessage, message: Message): string {
  return JSON.stringify(toJson(schema, message))
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "<uuid>")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>")
    .replaceAll(
      /(key|copy|project|organization|identity|token|owner|user|role|host|file|gateway|environment|template|authority)-[0-9a-f]{12}/g,
      "<name>",
    )
    .replaceAll(/"[0-9a-f]{64}"/g, '"<hash>"')
    .replaceAll(/"serialNumber":"[0-9a-f]{40}"/g, '"serialNumber":"<serial>"')
    .replaceAll(/"(certificatePem|chainPem|privateKeyPem)":"-----[^"]*"/g, '"$1":"<pem>"')
    .replaceAll(/"data":"([^"]*)"/g, (_, bytes: string) => `"data":"<${bytes.length} characters>"`)
    .replaceAll(
      /"(accessToken|clientSecret|prefix|token|csrfToken|enrollmentToken|salt|serverPublicKey|serverProof|fencingToken)":"[^"]*"/g,
      '"$1":"<credential>"',
    )
    .replaceAll(/"value":"[A-Za-z0-9]{32}"/g, '"value":"<generated>"')
    .replaceAll(/,?"(latencyMs|uptimeSeconds|secondsSinceHeartbeat|active|idle|total\w*)":\d+/g, "");
}

describe("every method", () => {
  it("has a sample request, so that a new one is covered here", () => {
    expect(methods.map(nameOf).sort()).to.deep.equal(Object.keys(samples).sort());
  });

  it("says who may call it, with a permission of the vocabulary, and how a denial is recorded", () => {
    for (const method of methods) {
      const { caller, deniedAction } = policyOf(method);
      if (caller.case === "permission") expect(permissions, method.name).to.include(caller.value);
      if (caller.case !== "public") expect(deniedAction, method.name).to.match(/^[a-z_]+\.[a-z_]+$/);
    }
  });
});

describe("REST, gRPC and Connect", () => {
  const server = useServer({ KEYTAB_ENABLED: "true" });
  let nobody: Client;
  before(async () => {
    nobody = await server.as("nobody", []);
  });

  for (const method of methods) {
    const sampleOf = async () => (await samples[nameOf(method)]?.(server)) ?? {};
    const doors = doorsOf(method);

    it(`agree on the answer of ${method.name}`, async () => {
      const answers = [];
      for (const [, call] of doors) {
        const ending = await call(await callerOf(server, method), method, await sampleOf());
        answers.push(ending.ok ? withoutVariables(method.output, ending.message) : JSON.stringify(ending));
      }

      expect(answers[0]).not.to.contain('"ok":false');
      for (const answer of answers) expect(answer).to.equal(answers[0]);
    });

    it(`agree on who may not call ${method.name}`, async () => {
      const isPublic = policyOf(method).caller.case === "public";
      for (const [door, call] of doors) {
        const anonymous = await call(server.anonymous, method, await sampleOf());

        if (isPublic) expect(anonymous.ok, door).to.equal(true);
        else expect(anonymous, door).to.include({ ok: false, code: "AUTH_REQUIRED" });
        if (policyOf(method).caller.case === "permission") {
          const unprivileged = await call(nobody, method, await sampleOf());
          expect(unprivileged, door).to.include({ ok: false, code: "PERMISSION_DENIED" });
        }
      }
    });

    it(`agree on the refusal of a bad request to ${method.name}`, async () => {
      const bad = badRequestOf(method, await sampleOf());
      if (bad === undefined) return; // nothing in this request has a rule
      const caller = await callerOf(server, method);
      const endings = await Promise.all(doors.map(([, call]) => call(caller, method, bad)));

      expect(endings[0]?.ok).to.equal(false);
      const refusals = endings.map((ending) => (ending.ok ? "ok" : [ending.code, ...ending.fields].join(" ")));
      expect(new Set(refusals).size, refusals.join(" | ")).to.equal(1);
    });
  }
});

/** The sample with one field that breaks its rule; undefined when no field has one that could be broken. */
function badRequestOf(method: RestMethod, sample: Sample): Sample | undefined {
  const { fields } = method.input;
  if (fields.some(({ name }) => name === "page")) return { ...sample, page: 0 };
  const { pathFields } = policyOf(method);
  const id = fields.find(({ name }) => pathFields.has(name) && name.endsWith("id"));
  if (id !== undefined) return { ...sample, [id.name]: "not-a-uuid" };
  const text = fields.find(
    ({ fieldKind, scalar, name }) =>
      fieldKind === "scalar" && scalar === ScalarType.STRING && name in sample && !pathFields.has(name),
  );
  // A query is bounded by what a server takes as headers.
  const length = bindingsOf(method).some(({ verb }) => verb === "GET") ? 5000 : 70_000;
  return text === undefined ? undefined : { ...sample, [text.name]: "x".repeat(length) };
}

describe("a feature that is switched off", () => {
  const server = useServer();
  const featureOf = (method: RestMethod) => policyOf(method).feature;

  for (const method of methods.filter((each) => featureOf(each) !== "")) {
    it(`refuses ${method.name} to everybody whom it knows, whatever they may and ask for`, async () => {
      const nobody = await server.as(`nobody-${method.name}`, []);
      const bad = method.input.fields.some(({ name }) => name === "id") ? { id: "nonsense" } : {};

      for (const [door, call] of doorsOf(method)) {
        const known = await Promise.all([server.admin, nobody].map((client) => call(client, method, bad)));
        const anonymous = await call(server.anonymous, method, bad);

        for (const ending of known) expect(ending, door).to.include({ ok: false, code: "FEATURE_DISABLED" });
        expect(anonymous, door).to.include({ ok: false, code: "AUTH_REQUIRED" });
      }
    });
  }
});

describe("another organization", () => {
  const server = useServer({ KEYTAB_ENABLED: "true" });
  let login: () => Promise<Client>;
  let stranger: Client;
  /** Those who are no administrators, by the permission that they have. */
  let strangers: Readonly<Record<string, Client>>;
  before(async () => {
    const { admin, login: logIn } = await server.otherOrganization();
    login = logIn;
    const host = await Host.enroll(server, { by: admin });
    const gateway = await TestGateway.register(server, { by: admin });
    host.close();
    gateway.close();
    strangers = {
      "agent:report": host.client,
      "gateway:connect": gateway.client,
    };
  });
  // Anew for each method, since some end the token that they are called with.
  beforeEach(async () => {
    stranger = await login();
  });

  for (const method of methods) {
    it(`sees nothing of ours through ${method.name}`, async () => {
      const { caller } = policyOf(method);
      const sample = (await samples[nameOf(method)]?.(server)) ?? {};
      const { pathFields } = policyOf(method);
      const namesOurs = Object.entries(sample).some(
        ([name, value]) =>
          (/(^|_)id$/.test(name) || pathFields.has(name)) && !isChosenByCaller(name) && value !== undefined,
      );
      const asked = caller.case === "permission" ? caller.value : "";
      for (const [door, call] of doorsOf(method)) {
        const ending = await call(strangers[asked] ?? stranger, method, sample);

        if (namesOurs) expect(ending, door).to.include({ ok: false, code: "RESOURCE_NOT_FOUND" });
        else if (ending.ok) {
          const told = JSON.stringify(toJson(method.output, ending.message));
          for (const ours of await oursIn(method, sample, server)) expect(told, door).not.to.contain(ours);
        }
      }
    });
  }
});

/** Not the ids of anything that we have. */
const isChosenByCaller = (name: string) => ["client_id", "scan_id", "instance_id", "identity_client_id"].includes(name);

/** What no answer to somebody else may hold: our project, the principal of our keytabs, our gateways, and what a list searches. */
async function oursIn(method: RestMethod, sample: Sample, server: TestServer): Promise<string[]> {
  const searched = method.name.startsWith("List") ? Object.values(sample).map(String) : [];
  const gateways = await server.sql(
    "select g.id from gateway g join organization o on o.id = organization_id and instance",
  );
  return [
    server.projectId,
    "HTTP/web.example.com",
    ...gateways.map(({ id }) => id),
    ...searched.filter((text) => /[0-9a-f]{12}$/.test(text)),
  ];
}
