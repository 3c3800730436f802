import { createPrivateKey } from "node:crypto";
import { expect } from "chai";
import { CertificateService } from "../../../gen/ts/holdfast/certificates/v1/certificate_service_pb.ts";
import { renewalJob } from "../../../src/server/certificates/renewals.ts";
import { disguises, dump } from "../../harness/leaks.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities } from "./authorities.ts";
import { Certificates, certificatesPath } from "./certificates.ts";

const server = useServer({ LOG_LEVEL: "trace" });
const authorities = new Authorities(server);
const certificates = new Certificates(server);

describe("The key that is made for a certificate", () => {
  /** What of each key nobody may see, by how it came to be. */
  const secrets: Record<string, Buffer> = {};
  const told: string[] = [];

  function keep(name: string, pem: string): void {
    const { d = "", p = "" } = createPrivateKey(pem).export({ format: "jwk" });
    secrets[name] = Buffer.from(d, "base64url");
    if (p !== "") secrets[`${name}, a prime`] = Buffer.from(p, "base64url");
  }

  before(async function () {
    this.timeout(60_000);
    const { admin } = server;
    const root = await authorities.root();
    const headers = { "idempotency-key": "once" };
    const { body: first } = await certificates.post({ ca_id: root.id, auto_renew: true }, admin, headers);
    keep("ECDSA", first.private_key_pem);
    await certificates.post({ ca_id: root.id, auto_renew: true }, admin, headers);
    keep("RSA", (await certificates.issued({ ca_id: root.id, key_algorithm: "RSA" })).private_key_pem);
    keep("Ed25519", (await certificates.issued({ ca_id: root.id, key_algorithm: "Ed25519" })).private_key_pem);
    const client = admin.grpc(CertificateService);
    const made = await client.issueCertificate(
      { caId: root.id, subject: { commonName: "rpc.example.com" } },
      admin.metadata(),
    );
    keep("over gRPC", made.privateKeyPem ?? "");
    client.close();
    await server.sql("update certificate set renew_at = now() where renew_at is not null");
    await renewalJob(server.server.core).run({});
    const { body: second } = await certificates.renew(made.id);
    for (const path of [certificatesPath(), certificatesPath(first.id), certificatesPath(first.id, "/download")])
      told.push(JSON.stringify((await admin.rest("GET", path)).body));
    told.push(JSON.stringify(second), JSON.stringify((await certificates.revoke(first.id)).body));
    told.push(JSON.stringify((await admin.rest("GET", "/api/v1/audit-logs?action=certificate.*&per_page=100")).body));
  });

  function expectNone(text: string): void {
    for (const [name, secret] of Object.entries(secrets)) {
      for (const disguise of disguises(secret)) expect(text.includes(disguise), name).to.equal(false);
    }
    expect(text).not.to.include("PRIVATE KEY");
  }

  it("is in no answer but the one that made it, and in no audit event", () => {
    expect(Object.keys(secrets)).to.have.length(5);
    expect(told.join("\n")).to.include("certificate.issue").and.to.include("BEGIN CERTIFICATE");
    expectNone(told.join("\n"));
  });

  it("is in no log, at its most talkative", () => {
    expect(server.log).to.include("IssueCertificate").and.to.include("RenewCertificate");
    expectNone(server.log);
  });

  it("is in no column of any table", async function () {
    this.timeout(60_000);
    const everything = await dump(server);

    expect(everything).to.include("www.example.com");
    expectNone(everything);
  });
});
