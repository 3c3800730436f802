import { status as grpcStatus } from "@grpc/grpc-js";
import { expect } from "chai";
import { CipherPolicyService } from "../../../gen/ts/holdfast/keytabs/v1/cipher_policy_service_pb.ts";
import { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const path = "/api/v1/keytabs/cipher-policy";
const given = {
  allowed_ciphers: ["aes256-cts-hmac-sha1-96", "arcfour-hmac"],
  deprecated_ciphers: ["arcfour-hmac"],
  enforcement_mode: "enforce",
};

let admin: Client;
let organizationId: string;
beforeEach(async () => {
  ({ admin, organizationId } = await server.otherOrganization());
});

const get = async (by = admin) => (await by.rest("GET", path)).body;
const put = (fields: object, by = admin) => by.rest("PUT", path, { ...given, ...fields });
const faultsOf = (body: { error: { details: { field: string; message: string }[] } }) => body.error.details;

describe("GetCipherPolicy", () => {
  it("answers, before anybody set a policy, strong types, RC4 with a warning, and no refusals", async () => {
    const { status, body } = await admin.rest("GET", path);

    const { id, created_at, updated_at, ...rest } = body;
    expect(status).to.equal(200);
    expect(rest).to.deep.equal({
      organization_id: organizationId,
      allowed_ciphers: [
        "aes256-cts-hmac-sha384-192",
        "aes128-cts-hmac-sha256-128",
        "aes256-cts-hmac-sha1-96",
        "aes128-cts-hmac-sha1-96",
        "arcfour-hmac",
      ],
      deprecated_ciphers: ["arcfour-hmac"],
      enforcement_mode: "warn",
    });
    expect(id).to.match(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
    expect(created_at).to.equal(updated_at);
    expect(await get()).to.deep.equal(body);
  });

  it("answers one policy to all who ask first, at once and on whichever replica", async () => {
    const replica = await server.startReplica();
    const elsewhere = new Client(urlOf(replica), admin.token);

    const policies = await Promise.all(Array.from({ length: 20 }, (_, n) => get(n % 2 === 0 ? admin : elsewhere)));

    for (const policy of policies) expect(policy).to.deep.equal(policies[0]);
    expect(policies[0].organization_id).to.equal(organizationId);
  });
});

describe("UpdateCipherPolicy", () => {
  it("replaces all three, and keeps the identity of the policy", async () => {
    const before = await get();

    const { status, body } = await put({});

    expect(status).to.equal(200);
    expect(body).to.deep.include({ ...given, id: before.id, created_at: before.created_at });
    expect(Date.parse(body.updated_at)).to.be.at.least(Date.parse(before.updated_at));
    expect(await get()).to.deep.equal(body);
  });

  it("answers the lists as given, without blanks around names and without names that come twice", async () => {
    const { body } = await put({
      allowed_ciphers: [" RC4-HMAC\t", "aes256-cts", "rc4-hmac", "aes256-cts", "RC4-HMAC"],
      deprecated_ciphers: ["rc4-hmac ", "rc4-hmac"],
    });

    expect(body.allowed_ciphers).to.deep.equal(["RC4-HMAC", "aes256-cts", "rc4-hmac"]);
    expect(body.deprecated_ciphers).to.deep.equal(["rc4-hmac"]);
  });

  it("knows a deprecated type among the allowed by any of its names", async () => {
    for (const name of ["arcfour-hmac", "ARCFOUR-HMAC-MD5", "rc4-hmac", "DEPRECATED:arcfour-hmac", "etype-23"]) {
      const { status, body } = await put({ deprecated_ciphers: [name] });

      expect(status, name).to.equal(200);
      expect(body.deprecated_ciphers).to.deep.equal([name]);
    }
  });

  it("keeps names that nobody knows", async () => {
    const lists = { allowed_ciphers: ["quantum-cts", "aes256"], deprecated_ciphers: ["Quantum-CTS"] };

    const { status, body } = await put(lists);

    expect(status).to.equal(200);
    expect(body).to.deep.include(lists);
  });

  it("takes an empty list of deprecated types", async () => {
    expect((await put({ deprecated_ciphers: [] })).body.deprecated_ciphers).to.deep.equal([]);
  });

  const missing: Record<string, unknown> = { "left out": undefined, null: null };
  for (const field of ["allowed_ciphers", "deprecated_ciphers", "enforcement_mode"]) {
    for (const [how, value] of Object.entries(missing)) {
      it(`refuses ${field} when it is ${how}, and changes nothing`, async () => {
        const before = await get();

        const { status, body } = await put({ [field]: value });

        expect(status).to.equal(400);
        expect(body.error.code).to.equal("VALIDATION_ERROR");
        expect(faultsOf(body).map(({ field }) => field)).to.deep.equal([field]);
        expect(await get()).to.deep.equal(before);
      });
    }
  }

  const refused: [string, object, string[]][] = [
    ["no allowed types", { allowed_ciphers: [], deprecated_ciphers: [] }, ["allowed_ciphers"]],
    ["an empty name", { allowed_ciphers: ["arcfour-hmac", ""] }, ["allowed_ciphers[1]"]],
    ["a blank name", { allowed_ciphers: ["arcfour-hmac", " \t"] }, ["allowed_ciphers[1]"]],
    ["a name that is no text", { allowed_ciphers: ["arcfour-hmac", 18] }, ["allowed_ciphers[1]"]],
    ["a text for a list", { deprecated_ciphers: {} }, ["deprecated_ciphers"]],
    ["another mode", { enforcement_mode: "block" }, ["enforcement_mode"]],
    [
      "deprecated types that are not allowed",
      { deprecated_ciphers: ["des-cbc-md5", "rc4-hmac", "quantum-cts"] },
      ["deprecated_ciphers[0]", "deprecated_ciphers[2]"],
    ],
  ];
  for (const [what, fields, expected] of refused) {
    it(`refuses ${what}, by name`, async () => {
      const { status, body } = await put(fields);

      expect(status).to.equal(400);
      expect(faultsOf(body).map(({ field }) => field)).to.deep.equal(expected);
    });
  }

  it("refuses the families of krb5.conf, and says which types they stand for", async () => {
    const families = {
      aes: "aes256-cts-hmac-sha1-96",
      AES: "aes128-cts-hmac-sha256-128",
      rc4: "arcfour-hmac",
      "-rc4": "arcfour-hmac",
      des3: "des3-cbc-sha1",
      camellia: "camellia256-cts-cmac",
      DEFAULT: "aes256-cts-hmac-sha384-192",
    };
    for (const [family, member] of Object.entries(families)) {
      const { status, body } = await put({ allowed_ciphers: ["arcfour-hmac", family] });

      expect(status, family).to.equal(400);
      expect(faultsOf(body)[0]?.field).to.equal("allowed_ciphers[1]");
      expect(faultsOf(body)[0]?.message).to.include(member);
    }
  });

  it("lets the last of many at once stay", async () => {
    const elsewhere = new Client(urlOf(await server.startReplica()), admin.token);
    const lists = Array.from({ length: 12 }, (_, n) => [`unknown-${n}`]);

    const answers = await Promise.all(
      lists.map((allowed_ciphers, n) =>
        put({ allowed_ciphers, deprecated_ciphers: [] }, n % 2 === 0 ? admin : elsewhere),
      ),
    );

    expect(answers.map(({ status }) => status)).to.deep.equal(lists.map(() => 200));
    expect(answers.map(({ body }) => body.allowed_ciphers)).to.deep.equal(lists);
    expect(lists).to.deep.include((await get()).allowed_ciphers);
  });

  it("records the policy before and after", async () => {
    const { id, allowed_ciphers, deprecated_ciphers, enforcement_mode } = await get();

    await put({});

    const [event] = await server.sql(
      "select outcome, actor_id, resource_type, resource_id, details from audit_event where organization_id = $1 and action = $2",
      [organizationId, "cipher_policy.update"],
    );
    expect(event).to.include({
      outcome: "success",
      actor_id: admin.id,
      resource_type: "cipher_policy",
      resource_id: id,
    });
    expect(JSON.parse(event.details)).to.deep.equal({
      before: { allowed_ciphers, deprecated_ciphers, enforcement_mode },
      after: given,
    });
  });

  it("is for those who may write it; who may read it reads it", async () => {
    const viewer = await server.as("policy-viewer", ["viewer"], admin);
    const agent = await server.as("policy-agent", ["agent"], admin);

    expect((await viewer.rest("GET", path)).status).to.equal(200);
    expect((await put({}, viewer)).status).to.equal(403);
    expect((await agent.rest("GET", path)).status).to.equal(403);
    expect((await server.anonymous.rest("GET", path)).status).to.equal(401);
  });

  it("changes the policy of the caller's organization only", async () => {
    const other = await server.otherOrganization();
    const theirs = await get(other.admin);

    await put({});

    expect(await get(other.admin)).to.deep.equal(theirs);
  });

  it("takes an empty list as given over gRPC, unless a mask leaves it out", async () => {
    const grpc = admin.grpc(CipherPolicyService);
    const request = { allowedCiphers: ["aes256-cts"], deprecatedCiphers: [], enforcementMode: "warn" };
    const updateMask = { paths: ["allowed_ciphers", "enforcement_mode"] };
    try {
      const policy = await grpc.updateCipherPolicy(request, admin.metadata());
      const refusal = await grpc
        .updateCipherPolicy({ ...request, updateMask }, admin.metadata())
        .then(undefined, (error: { code: number }) => error);

      expect(policy.deprecatedCiphers).to.deep.equal([]);
      expect(policy.allowedCiphers).to.deep.equal(["aes256-cts"]);
      expect(refusal).to.include({ code: grpcStatus.INVALID_ARGUMENT });
    } finally {
      grpc.close();
    }
  });
});
