import { expect } from "chai";
import { CipherPolicyService } from "../../../gen/ts/holdfast/keytabs/v1/cipher_policy_service_pb.ts";
import type { Client } from "../../harness/client.ts";
import { Host } from "../../harness/host.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { recordOf, someFile } from "../discovery/files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

let admin: Client;
let organizationId: string;
let projectId: string;
const hosts: Host[] = [];
beforeEach(async () => {
  ({ admin, organizationId, projectId } = await server.otherOrganization());
});
afterEach(() => {
  for (const host of hosts.splice(0)) host.close();
});

const path = "/api/v1/keytabs/cipher-policy/preview";
const withoutRc4 = { allowed_ciphers: ["aes256-cts"], deprecated_ciphers: [], enforcement_mode: "enforce" };
const preview = (fields = {}, by = admin) => by.rest("POST", path, { ...withoutRc4, ...fields });

const [aes256, rc4, desMd5] = [18, 23, 3];
const importOf = (name: string, principal: string, ...enctypes: number[]) =>
  importKeytab(admin, newKeytab({ principal, enctypes }), { name });
const principalOf = (principal: string) => `${principal}@EXAMPLE.COM`;
const fileOf = (filePath: string, principal: string, ...encryptionTypes: string[]) =>
  someFile(filePath, { principal: principalOf(principal), encryptionTypes });

async function enroll(hostname: string, by = admin): Promise<Host> {
  const host = await Host.enroll(server, { hostname, by });
  hosts.push(host);
  return host;
}

const notAllowed = "not in allowed_ciphers";
const isDeprecated = "deprecated by the cipher policy";
const namesOf = (body: { keytabs: { name: string }[] }) => body.keytabs.map(({ name }) => name);

describe("PreviewCipherPolicy", () => {
  it("lists the keytabs whose verdict would be another one, and why", async () => {
    await importOf("strong", "HTTP/strong", aes256);
    const weak = await importOf("weak", "HTTP/weak", aes256, rc4);
    await importOf("broken", "HTTP/broken", desMd5, rc4);

    const { status, body } = await preview();

    expect(status).to.equal(200);
    expect(body).to.deep.equal({
      keytabs: [
        {
          id: weak.id,
          name: "weak",
          principal: principalOf("HTTP/weak"),
          from: "warning",
          to: "non_compliant",
          cipher_violations: { "arcfour-hmac": notAllowed },
        },
      ],
      files: [],
      principals: [principalOf("HTTP/weak")],
      totals: { keytabs: 3, changed_keytabs: 1, files: 0, changed_files: 0, changed_principals: 1 },
    });
  });

  it("lists the files on hosts whose verdict would be another one, and why", async () => {
    const host = await enroll("web1");
    await host.report([
      fileOf("/etc/weak.keytab", "HTTP/weak", "aes256-cts-hmac-sha1-96", "arcfour-hmac"),
      fileOf("/etc/strong.keytab", "HTTP/strong", "aes256-cts-hmac-sha1-96"),
    ]);
    const { id } = await recordOf(admin, host, "/etc/weak.keytab");

    const { body } = await preview();

    expect(body).to.deep.equal({
      keytabs: [],
      files: [
        {
          id,
          agent_id: host.id,
          hostname: "web1",
          file_path: "/etc/weak.keytab",
          principal: principalOf("HTTP/weak"),
          from: "warning",
          to: "non_compliant",
          cipher_violations: { "arcfour-hmac": notAllowed },
        },
      ],
      principals: [principalOf("HTTP/weak")],
      totals: { keytabs: 0, changed_keytabs: 0, files: 2, changed_files: 1, changed_principals: 1 },
    });
  });

  it("compares a keytab's verdict of its last check, and a file's by the policy of the moment", async () => {
    const host = await enroll("web1");
    await importOf("weak", "HTTP/weak", rc4);
    await host.report([fileOf("/etc/weak.keytab", "HTTP/weak", "arcfour-hmac")]);
    await admin.rest("PUT", "/api/v1/keytabs/cipher-policy", withoutRc4);

    const { body } = await preview();

    expect(body.keytabs).to.have.length(1);
    expect(body.keytabs[0]).to.include({ from: "warning", to: "non_compliant" });
    expect(body.files).to.deep.equal([]);
  });

  it("says what would be better too", async () => {
    await importOf("camellia", "HTTP/camellia", 26);
    const policy = { allowed_ciphers: ["camellia256-cts", "rc4-hmac"], deprecated_ciphers: ["rc4-hmac"] };

    const { body } = await preview(policy);

    expect(body.keytabs[0]).to.deep.include({ from: "non_compliant", to: "compliant", cipher_violations: {} });
  });

  it("names every type that the policy would object to", async () => {
    await importOf("many", "HTTP/many", aes256, rc4);
    const policy = { allowed_ciphers: ["rc4-hmac"], deprecated_ciphers: ["rc4-hmac"] };

    const { body } = await preview(policy);

    expect(body.keytabs[0].cipher_violations).to.deep.equal({
      "aes256-cts-hmac-sha1-96": notAllowed,
      "arcfour-hmac": isDeprecated,
    });
  });

  it("saves nothing: neither the policy, nor a verdict, nor an event", async () => {
    const keytab = await importOf("weak", "HTTP/weak", rc4);
    const { body: before } = await admin.rest("GET", "/api/v1/keytabs/cipher-policy");
    const countEvents = () =>
      server.sql("select count(*)::int as n from audit_event where organization_id = $1", [organizationId]);
    const events = await countEvents();

    expect((await preview()).body.totals.changed_keytabs).to.equal(1);

    expect((await admin.rest("GET", "/api/v1/keytabs/cipher-policy")).body).to.deep.equal(before);
    expect((await admin.rest("GET", `/api/v1/keytabs/${keytab.id}`)).body).to.deep.equal(keytab);
    expect(await countEvents()).to.deep.equal(events);
  });

  it("leaves out deleted keytabs, stale files, and what other organizations have", async () => {
    const { id } = await importOf("deleted", "HTTP/deleted", rc4);
    await admin.rest("DELETE", `/api/v1/keytabs/${id}`);
    const host = await enroll("web1");
    await host.report([fileOf("/etc/gone.keytab", "HTTP/gone", "arcfour-hmac")]);
    await host.report([]);
    await importKeytab(server.admin, newKeytab({ enctypes: [rc4] }));
    const theirs = await enroll("web1", server.admin);
    await theirs.report([fileOf("/etc/theirs.keytab", "HTTP/theirs", "arcfour-hmac")]);

    const { body } = await preview();

    expect(body).to.deep.equal({
      keytabs: [],
      files: [],
      principals: [],
      totals: { keytabs: 0, changed_keytabs: 0, files: 0, changed_files: 0, changed_principals: 0 },
    });
  });

  it("lists keytabs by name, files by host and path, and each principal once", async () => {
    const [web1, web2] = [await enroll("web1"), await enroll("web2")];
    await importOf("b", "HTTP/2", rc4);
    await importOf("a", "HTTP/3", rc4);
    await importOf("b", "HTTP/1", rc4);
    await web2.report([fileOf("/etc/a.keytab", "HTTP/4", "arcfour-hmac")]);
    await web1.report([
      fileOf("/etc/c.keytab", "HTTP/2", "arcfour-hmac"),
      fileOf("/etc/b.keytab", "HTTP/1", "arcfour-hmac"),
    ]);

    const { body } = await preview();

    expect(namesOf(body)).to.deep.equal(["a", "b", "b"]);
    const places = body.files.map((file: { hostname: string; file_path: string }) => [file.hostname, file.file_path]);
    expect(places).to.deep.equal([
      ["web1", "/etc/b.keytab"],
      ["web1", "/etc/c.keytab"],
      ["web2", "/etc/a.keytab"],
    ]);
    expect(body.principals).to.deep.equal(["HTTP/1", "HTTP/2", "HTTP/3", "HTTP/4"].map(principalOf));
    expect((await preview()).body).to.deep.equal(body);
  });

  it("lists as many as the limit says, and counts all", async () => {
    const host = await enroll("web1");
    const numbers = [1, 2, 3];
    for (const n of numbers) await importOf(`keytab ${n}`, `HTTP/${n}`, rc4);
    await host.report(numbers.map((n) => fileOf(`/etc/${n}.keytab`, `host/${n}`, "arcfour-hmac")));

    const { body } = await preview({ limit: 2 });

    expect(namesOf(body)).to.deep.equal(["keytab 1", "keytab 2"]);
    expect(body.files).to.have.length(2);
    expect(body.principals).to.have.length(2);
    expect(body.totals).to.deep.equal({
      keytabs: 3,
      changed_keytabs: 3,
      files: 3,
      changed_files: 3,
      changed_principals: 6,
    });
  });

  const refused: [string, object, string][] = [
    ["no allowed types", { allowed_ciphers: [] }, "allowed_ciphers"],
    ["a missing list", { deprecated_ciphers: undefined }, "deprecated_ciphers"],
    ["a missing mode", { enforcement_mode: undefined }, "enforcement_mode"],
    ["a deprecated type that is not allowed", { deprecated_ciphers: ["rc4-hmac"] }, "deprecated_ciphers[0]"],
    ["a family of krb5.conf", { allowed_ciphers: ["aes"] }, "allowed_ciphers[0]"],
    ["a limit of none", { limit: 0 }, "limit"],
    ["a limit beyond 1000", { limit: 1001 }, "limit"],
  ];
  for (const [what, fields, field] of refused) {
    it(`refuses ${what}, by name`, async () => {
      const { status, body } = await preview(fields);

      expect(status).to.equal(400);
      expect(body.error.details.map((each: { field: string }) => each.field)).to.deep.equal([field]);
    });
  }

  it("is for those who may read keytabs at the organization", async () => {
    const viewer = await server.as("preview-viewer", ["viewer"], admin);
    const agent = await server.as("preview-agent", ["agent"], admin);
    const ofProject = await server.as(
      "preview-project",
      { projectRoles: [{ project_id: projectId, role: "editor" }] },
      admin,
    );

    expect((await preview({}, viewer)).status).to.equal(200);
    expect((await preview({}, agent)).status).to.equal(403);
    expect((await preview({}, ofProject)).status).to.equal(403);
  });

  it("answers the same over gRPC, where an empty list needs no mask", async () => {
    const grpc = admin.grpc(CipherPolicyService);
    try {
      const { id } = await importOf("weak", "HTTP/weak", rc4);
      const request = { allowedCiphers: ["aes256-cts"], enforcementMode: "warn" };

      const { keytabs, totals } = await grpc.previewCipherPolicy(request, admin.metadata());

      expect(keytabs.map((keytab) => [keytab.id, keytab.from, keytab.to])).to.deep.equal([
        [id, "warning", "non_compliant"],
      ]);
      expect(totals?.changedPrincipals).to.equal(1);
    } finally {
      grpc.close();
    }
  });
});
