import { spawnSync } from "node:child_process";
import { createHash, createPrivateKey, randomUUID, X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { CertificateService } from "../../../gen/ts/holdfast/certificates/v1/certificate_service_pb.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { type CertificateRecord, Certificates, certificatesPath, csrOf, faultsOf, newCsr } from "./certificates.ts";

const server = useServer({ OCSP_URL: "http://status.example.com/" });
const authorities = new Authorities(server);
const certificates = new Certificates(server);

const dayMs = 86_400_000;
const minuteMs = 60_000;
const parsed = ({ certificate_pem }: CertificateRecord) => new X509Certificate(certificate_pem);
const secondOf = (time: string) => Math.floor(Date.parse(time) / 1000) * 1000;
const lengthOf = ({ created_at, not_after }: CertificateRecord) => Date.parse(not_after) - secondOf(created_at);
const noNames = { dns: [], ip: [], email: [], uri: [] };
const nobody = "00000000-0000-7000-8000-000000000000";

/** How many certificates there are, with and without their statuses. */
const stored = async () =>
  (
    await server.sql(
      `select (select count(*)::int from certificate) as certificates,
         (select count(*)::int from certificate_status) as statuses`,
    )
  )[0];

describe("IssueCertificate", () => {
  let root: AuthorityRecord;
  let issuing: AuthorityRecord;

  before(async () => {
    root = await authorities.root();
    issuing = await authorities.below(root);
  });

  it("answers 201 with the record, where it is, and the key that was made", async () => {
    const subject = { common_name: "www.example.com", organization: "Example", organizational_unit: "Web" };
    const place = { country: "de", state: "Hessen", locality: "Köln" };
    const names = { dns: ["WWW.example.com", "*.example.com"], ip: ["2001:DB8::0:1"], email: ["a@example.com"] };
    const { status, headers, body } = await certificates.post({
      ca_id: issuing.id,
      project_id: server.projectId,
      subject: { ...subject, ...place },
      subject_alternative_names: { ...names, uri: ["https://example.com/x"] },
    });

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(certificatesPath(body.id));
    const { private_key_pem: privateKey, ...record } = body;
    const { id, organization_id, serial_number, not_before, not_after, created_at, certificate_pem, ...rest } = record;
    expect(rest).to.deep.equal({
      ca_id: issuing.id,
      project_id: server.projectId,
      status: "active",
      subject: { ...subject, ...place, country: "DE" },
      subject_alternative_names: {
        dns: ["www.example.com", "*.example.com"],
        ip: ["2001:db8::1"],
        email: ["a@example.com"],
        uri: ["https://example.com/x"],
      },
      key_algorithm: "ECDSA",
      key_size: 256,
      profile: "server",
      fingerprint_sha256: createHash("sha256").update(parsed(body).raw).digest("hex"),
      chain_pem: issuing.certificate_pem + root.certificate_pem,
      auto_renew: false,
      renewal_of: null,
      renewed_by: null,
      revoked_at: null,
      revocation_reason: null,
      created_by: server.admin.id,
    });
    expect(organization_id).to.equal(issuing.organization_id);
    expect(serial_number).to.match(/^[4-7][0-9a-f]{39}$/);
    expect(parsed(body).serialNumber.toLowerCase()).to.equal(serial_number);
    expect(parsed(body).checkIssued(new X509Certificate(issuing.certificate_pem))).to.equal(true);
    expect(parsed(body).checkPrivateKey(createPrivateKey(privateKey))).to.equal(true);
    expect(Date.parse(not_after) - secondOf(created_at)).to.equal(90 * dayMs);
    expect(secondOf(created_at) - Date.parse(not_before)).to.equal(
      Math.min(5 * minuteMs, secondOf(created_at) - Date.parse(issuing.not_before)),
    );
    expect(parsed(body).validFromDate.toISOString()).to.equal(not_before);
    expect(parsed(body).validToDate.toISOString()).to.equal(not_after);
    expect(certificate_pem).to.match(/^-----BEGIN CERTIFICATE-----\n[^-]+-----END CERTIFICATE-----\n$/);
    expect(await certificates.get(id)).to.deep.equal(record);
    const { revoked_at, not_after: end } = await certificates.statusOf(body);
    expect([revoked_at, end.toISOString()]).to.deep.equal([null, not_after]);
  });

  it("is in the audit log with what was issued", async () => {
    const { id, serial_number, not_after } = await certificates.issued({
      ca_id: root.id,
      project_id: server.projectId,
    });

    const [event, ...more] = await certificates.events(id, "certificate.issue");
    expect(more).to.deep.equal([]);
    expect(event).to.include({ outcome: "success", resource_type: "certificate", resource_name: "www.example.com" });
    expect(event).to.include({ actor_id: server.admin.id, project_id: server.projectId });
    expect(event.details).to.deep.equal({ ca_id: root.id, serial_number, profile: "server", not_after });
  });

  for (const [key_algorithm, key_size] of [
    ["RSA", 2048],
    ["ECDSA", 384],
    ["ECDSA", 521],
    ["Ed25519", 256],
  ] as const) {
    it(`makes a key of ${key_algorithm} ${key_size} when asked to`, async () => {
      const certificate = await certificates.issued({ ca_id: root.id, key_algorithm, key_size });

      expect(certificate).to.include({ key_algorithm, key_size });
      expect(parsed(certificate).checkPrivateKey(createPrivateKey(certificate.private_key_pem))).to.equal(true);
    });
  }

  it("makes RSA keys of 2048 bits unless a size is given, and refuses sizes of another algorithm", async () => {
    const { key_size } = await certificates.issued({ ca_id: root.id, key_algorithm: "RSA" });
    const answers = [
      await certificates.post({ ca_id: root.id, key_algorithm: "RSA", key_size: 256 }),
      await certificates.post({ ca_id: root.id, key_size: 2048 }),
      await certificates.post({ ca_id: root.id, key_algorithm: "Ed25519", key_size: 384 }),
    ];

    expect(key_size).to.equal(2048);
    expect(answers.map(({ status }) => status)).to.deep.equal([400, 400, 400]);
    for (const answer of answers) expect(faultsOf(answer)).to.have.keys("key_size");
  });

  describe("for a signing request", () => {
    it("takes the key and the names of it, and returns no key", async () => {
      const { csr, privateKey } = await newCsr("CN=csr.example.com, O=Example, C=FR", [
        ["dns", "a.example.com"],
        ["ip", "192.0.2.1"],
      ]);

      const certificate = await certificates.issued({ ca_id: root.id, csr_pem: csr });

      expect(certificate).not.to.have.property("private_key_pem");
      expect(certificate.subject).to.include({
        common_name: "csr.example.com",
        organization: "Example",
        country: "FR",
      });
      expect(certificate.subject_alternative_names).to.deep.equal({
        ...noNames,
        dns: ["a.example.com", "csr.example.com"],
        ip: ["192.0.2.1"],
      });
      const key = createPrivateKey({ key: privateKey, format: "der", type: "pkcs8" });
      expect(parsed(certificate).checkPrivateKey(key)).to.equal(true);
    });

    it("takes the request's own subject, or names, in place of those of it", async () => {
      const { csr } = await newCsr("CN=csr.example.com, O=Example", [["dns", "a.example.com"]]);
      const issue = (fields: object) => certificates.issued({ ca_id: root.id, csr_pem: csr, ...fields });

      const named = await issue({ subject: { common_name: "own.example.com" } });
      const renamed = await issue({ subject_alternative_names: { dns: ["b.example.com"] } });
      const nameless = await issue({ subject: {} });

      expect(named.subject).to.include({ common_name: "own.example.com", organization: "" });
      expect(named.subject_alternative_names.dns).to.deep.equal(["a.example.com", "own.example.com"]);
      expect(renamed.subject).to.include({ common_name: "csr.example.com", organization: "Example" });
      expect(renamed.subject_alternative_names.dns).to.deep.equal(["b.example.com", "csr.example.com"]);
      expect(nameless.subject.common_name).to.equal("");
      expect(nameless.subject_alternative_names.dns).to.deep.equal(["a.example.com"]);
    });

    it("refuses what is none, is signed by another key, or asks for a key beside it, naming the field", async () => {
      const { csr } = await newCsr();
      const damaged = csr.replace(
        /^(.{64}\n.{20})(.)/m,
        (_, kept: string, each: string) => kept + (each === "A" ? "B" : "A"),
      );
      const cases: [string, object, string][] = [
        ["text", { csr_pem: "hello" }, "csr_pem"],
        ["a certificate", { csr_pem: root.certificate_pem }, "csr_pem"],
        ["two requests", { csr_pem: csr + csr }, "csr_pem"],
        ["a damaged one", { csr_pem: damaged }, "csr_pem"],
        ["too long a one", { csr_pem: "x".repeat(65_537) }, "csr_pem"],
        ["with an algorithm", { csr_pem: csr, key_algorithm: "ECDSA" }, "key_algorithm"],
        ["with a size", { csr_pem: csr, key_size: 256 }, "key_size"],
      ];
      const before = await stored();
      for (const [name, fields, field] of cases) {
        const answer = await certificates.post({ ca_id: root.id, ...fields });

        expect(answer.status, name).to.equal(400);
        expect(faultsOf(answer), name).to.have.keys(field);
      }
      expect(await stored()).to.deep.equal(before);
    });

    it("names csr_pem for names in it that cannot be", async () => {
      const { csr } = await newCsr("CN=csr.example.com", [["dns", "under_score.example.com"]]);

      const answer = await certificates.post({ ca_id: root.id, csr_pem: csr });

      expect(answer.status).to.equal(400);
      expect(faultsOf(answer)["csr_pem"]).to.match(/^subject_alternative_names\.dns\[0\] /);
    });

    it("refuses a key that was compromised in this organization, and in no other one", async () => {
      const { csr, keys } = await newCsr();
      const { id } = await certificates.issued({ ca_id: root.id, csr_pem: csr });
      const again = await csrOf(keys, "CN=again.example.com");
      await certificates.revoke(id, { reason: "superseded" });
      const allowed = await certificates.post({ ca_id: root.id, csr_pem: again });
      await certificates.revoke(id, { reason: "key_compromise" });
      const before = await stored();

      const refused = await certificates.post({ ca_id: issuing.id, csr_pem: again });
      const other = await server.otherOrganization();
      const theirs = await authorities.root({}, other.admin);
      const elsewhere = await certificates.post({ ca_id: theirs.id, csr_pem: again }, other.admin);

      expect(allowed.status).to.equal(201);
      expect(refused.status).to.equal(400);
      expect(faultsOf(refused)).to.have.keys("csr_pem");
      expect(elsewhere.status).to.equal(201);
      expect((await stored()).certificates).to.equal(before.certificates + 1);
    });
  });

  describe("of a profile", () => {
    const usages = async (profile: string) =>
      parsed(await certificates.issued({ ca_id: root.id, profile })).keyUsage?.toSorted();
    const [serverAuth, clientAuth] = ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"];

    it("is for servers, for clients, or for both", async () => {
      expect(await usages("server")).to.deep.equal([serverAuth]);
      expect(await usages("client")).to.deep.equal([clientAuth]);
      expect(await usages("server_client")).to.deep.equal([serverAuth, clientAuth]);
    });

    it("adds a server's common name to its alternative names when it is a host name or an address, once", async () => {
      const cases: [object, object][] = [
        [{ subject: { common_name: "WWW.Example.com" } }, { dns: ["www.example.com"] }],
        [{ subject: { common_name: "192.0.2.7" } }, { ip: ["192.0.2.7"] }],
        [
          { subject: { common_name: "a.example" }, subject_alternative_names: { dns: ["b.example", "A.example"] } },
          { dns: ["b.example", "a.example"] },
        ],
        [{ subject: { common_name: "Web server" }, subject_alternative_names: { ip: ["::1"] } }, { ip: ["::1"] }],
        [{ subject: { common_name: "www.example.com" }, profile: "client" }, {}],
      ];
      for (const [fields, names] of cases) {
        const { subject_alternative_names: found } = await certificates.issued({ ca_id: root.id, ...fields });

        expect(found, JSON.stringify(fields)).to.deep.equal({ ...noNames, ...names });
      }
    });

    it("refuses a server without a host name or an address, and a client without any name", async () => {
      const server = { subject: { common_name: "Web server" }, subject_alternative_names: { email: ["a@b.example"] } };
      const cases: [object, string][] = [
        [server, "subject_alternative_names"],
        [{ ...server, profile: "server_client" }, "subject_alternative_names"],
        [{ subject: {}, profile: "client" }, "subject"],
      ];
      for (const [fields, field] of cases) {
        const answer = await certificates.post({ ca_id: root.id, ...fields });

        expect(answer.status, field).to.equal(400);
        expect(faultsOf(answer)).to.have.keys(field);
      }
      const { profile } = await certificates.issued({ ca_id: root.id, ...server, profile: "client" });
      expect(profile).to.equal("client");
    });
  });

  it("refuses names that are none, each by its path, and tells all of them", async () => {
    const answer = await certificates.post({
      ca_id: root.id,
      subject: { common_name: " blank.example.com", country: "12" },
      subject_alternative_names: { dns: ["fine.example.com", "-x.example.com"], ip: ["1.2.3"], uri: ["no uri"] },
    });
    const canonical = await certificates.post({
      ca_id: root.id,
      subject: { common_name: " blank.example.com" },
      subject_alternative_names: { dns: ["fine.example.com", "-x.example.com"], ip: ["1.2.3"], uri: ["no uri"] },
    });

    expect(answer.status).to.equal(400);
    expect(faultsOf(answer)).to.have.keys("subject.country");
    expect(canonical.status).to.equal(400);
    expect(faultsOf(canonical)).to.have.keys(
      "subject.common_name",
      "subject_alternative_names.dns[1]",
      "subject_alternative_names.ip[0]",
      "subject_alternative_names.uri[0]",
    );
  });

  it("refuses names outside the constraints of any authority above it, naming each", async () => {
    const top = await authorities.root({
      max_path_length: 1,
      name_constraints: { excluded: { dns: ["secret.example.com"] } },
    });
    const below = await authorities.below(top, {
      name_constraints: { permitted: { dns: ["example.com"], ip: ["10.0.0.0/8"] } },
    });
    const { csr } = await newCsr("CN=Server", [["dns", "www.example.org"]]);
    const cases: [object, string[]][] = [
      [{ subject: { common_name: "www.example.org" } }, ["subject.common_name"]],
      [{ subject: { common_name: "a.secret.example.com" } }, ["subject.common_name"]],
      [
        { subject_alternative_names: { dns: ["www.example.com", "www.example.org"], ip: ["192.0.2.1"] } },
        ["subject_alternative_names.dns[1]", "subject_alternative_names.ip[0]"],
      ],
      [{ csr_pem: csr }, ["csr_pem"]],
    ];
    for (const [fields, fields_] of cases) {
      const answer = await certificates.post({ ca_id: below.id, ...fields });

      expect(answer.status, JSON.stringify(fields)).to.equal(400);
      expect(faultsOf(answer)).to.have.keys(...fields_);
    }
    const allowed = { dns: ["a.example.com"], ip: ["10.1.2.3"] };
    expect((await certificates.post({ ca_id: below.id, subject_alternative_names: allowed })).status).to.equal(201);
  });

  it("lives as long as asked, but no longer than its authority: a longer wish is refused, the usual length is cut", async () => {
    const short = await authorities.root({ validity_days: 10 });
    const asked = await certificates.issued({ ca_id: root.id, validity_days: 1 });
    const cut = await certificates.issued({ ca_id: short.id });
    const within = await certificates.issued({ ca_id: short.id, validity_days: 9 });
    const refused = await certificates.post({ ca_id: short.id, validity_days: 11 });

    expect(lengthOf(asked)).to.equal(dayMs);
    expect(cut.not_after).to.equal(short.not_after);
    expect(lengthOf(within)).to.equal(9 * dayMs);
    expect(refused.status).to.equal(400);
    expect(faultsOf(refused)).to.have.keys("validity_days");
    expect(parsed(cut).validFromDate >= new Date(short.not_before)).to.equal(true);
  });

  it("is 404 for an authority or a project that is not there for the caller", async () => {
    const other = await server.otherOrganization();
    const theirs = await authorities.root({}, other.admin);
    const before = await stored();
    const cases: [object, string][] = [
      [{ ca_id: nobody }, "ca_id"],
      [{ ca_id: theirs.id }, "ca_id"],
      [{ ca_id: root.id, project_id: nobody }, "project_id"],
      [{ ca_id: root.id, project_id: other.projectId }, "project_id"],
    ];
    for (const [fields, field] of cases) {
      const answer = await certificates.post(fields as Record<string, unknown>);

      expect(answer.status, JSON.stringify(fields)).to.equal(404);
      expect(faultsOf(answer)).to.have.keys(field);
    }
    expect(await stored()).to.deep.equal(before);
  });

  it("is 409 for an authority that is disabled, revoked or expired, and says which", async () => {
    const [disabled, revoked, expired] = [await authorities.root(), await authorities.root(), await authorities.root()];
    await authorities.put(disabled.id, { status: "disabled" });
    await authorities.revoke(revoked.id);
    await authorities.expire(expired.id);
    const before = await stored();
    for (const [state, { id }] of Object.entries({ disabled, revoked, expired })) {
      const { status, body } = await certificates.post({ ca_id: id });

      expect(status, state).to.equal(409);
      expect(body.error).to.include({ code: "RESOURCE_CONFLICT", message: `the certificate authority is ${state}` });
    }
    expect(await stored()).to.deep.equal(before);
  });

  it("issues nothing that outlives a revocation of its authority at the same moment", async () => {
    const authority = await authorities.root();
    const issuing = Array.from({ length: 20 }, () => certificates.post({ ca_id: authority.id }));
    const revoking = authorities.revoke(authority.id, { reason: "ca_compromise" });
    const answers = await Promise.all(issuing);
    await revoking;

    for (const { status, body } of answers) {
      expect(status, JSON.stringify(body)).to.be.oneOf([201, 409]);
      if (status === 201) expect(await certificates.get(body.id)).to.include({ status: "revoked" });
    }
    const [row] = await server.sql("select count(*)::int as n from certificate where ca_id = $1", [authority.id]);
    expect(row.n).to.equal(answers.filter(({ status }) => status === 201).length);
  });

  it("gives every certificate of many at once a serial number of its own", async () => {
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => certificates.issued({ ca_id: root.id, profile: "client" })),
    );

    expect(new Set(answers.map(({ serial_number }) => serial_number)).size).to.equal(40);
  });

  it("replays the answer under an Idempotency-Key with the key, and not with the key any more after five minutes", async () => {
    const headers = { "idempotency-key": randomUUID() };
    const post = () => certificates.post({ ca_id: root.id }, server.admin, headers);
    const before = await stored();

    const first = await post();
    const second = await post();
    await server.sql("update idempotency_record set created_at = created_at - interval '6 minutes' where key = $1", [
      headers["idempotency-key"],
    ]);
    const late = await post();

    expect(second.headers.get("idempotency-replayed")).to.equal("true");
    expect(second.body).to.deep.equal(first.body);
    expect(late.status).to.equal(409);
    expect(late.body).not.to.have.property("private_key_pem");
    expect((await stored()).certificates).to.equal(before.certificates + 1);
  });

  it("answers gRPC as it does REST", async () => {
    const client = server.admin.grpc(CertificateService);
    const request = { caId: root.id, subject: { commonName: "rpc.example.com" }, profile: "server_client" };

    const made = await client.issueCertificate(request, server.admin.metadata());
    client.close();

    expect(createPrivateKey(made.privateKeyPem ?? "").asymmetricKeyType).to.equal("ec");
    const record = await certificates.get(made.id);
    expect(record).to.deep.include({ certificate_pem: made.certificatePem, profile: "server_client" });
    expect(record).not.to.have.property("private_key_pem");
  });

  it("belongs to no project any more when its project is deleted", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "short-lived" });
    const { id } = await certificates.issued({ ca_id: root.id, project_id: project.id });

    const { status } = await server.admin.rest("DELETE", `/api/v1/projects/${project.id}`);

    expect(status).to.equal(204);
    expect(await certificates.get(id)).to.include({ project_id: null, status: "active" });
  });

  describe("as openssl sees it", () => {
    let folder = "";
    const openssl = (...args: string[]) => spawnSync("openssl", args, { encoding: "utf8", cwd: folder });
    const write = (name: string, text: string) => writeFileSync(join(folder, name), text);

    before(function () {
      if (spawnSync("openssl", ["version"]).error !== undefined) {
        console.log("      skipped: openssl is not installed");
        this.skip();
      }
      folder = mkdtempSync(join(tmpdir(), "holdfast-certificate-"));
      write("root.pem", root.certificate_pem);
    });

    after(() => {
      if (folder !== "") rmSync(folder, { recursive: true });
    });

    it("verifies up to the root for its purpose and its names, and for no others", async () => {
      const certificate = await certificates.issued({
        ca_id: issuing.id,
        subject_alternative_names: { ip: ["192.0.2.1"] },
      });
      write("leaf.pem", certificate.certificate_pem);
      write("chain.pem", certificate.chain_pem);
      const verify = (...more: string[]) =>
        openssl("verify", "-x509_strict", "-CAfile", "root.pem", "-untrusted", "chain.pem", ...more, "leaf.pem").status;

      expect(verify("-purpose", "sslserver", "-verify_hostname", "www.example.com")).to.equal(0);
      expect(verify("-purpose", "sslserver", "-verify_ip", "192.0.2.1")).to.equal(0);
      expect(verify("-purpose", "sslserver", "-verify_hostname", "example.com")).not.to.equal(0);
      expect(verify("-purpose", "sslclient")).not.to.equal(0);
      const { stdout } = openssl("x509", "-noout", "-text", "-in", "leaf.pem");
      expect(stdout).to.include("OCSP - URI:http://status.example.com\n");
      expect(stdout).to.include(`CA Issuers - URI:http://status.example.com/ca/${issuing.id}.crt\n`);
      expect(stdout).to.include(`URI:http://status.example.com/crl/${issuing.id}.crl\n`);
    });

    it("takes nothing of its requests but key and names, whatever else they ask for", async () => {
      write(
        "request.cnf",
        `[req]
distinguished_name = dn
req_extensions = wanted
prompt = no
[dn]
CN = csr.example.com
[wanted]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
extendedKeyUsage = codeSigning,OCSPSigning
subjectAltName = DNS:csr.example.com,IP:192.0.2.9
`,
      );
      for (const algorithm of [["rsa:2048"], ["ec", "-pkeyopt", "ec_paramgen_curve:P-384"], ["ed25519"]]) {
        const files = ["-config", "request.cnf", "-keyout", "key.pem", "-out", "csr.pem"];
        const made = openssl("req", "-new", "-nodes", ...files, "-newkey", ...algorithm);
        expect(made.status, made.stderr).to.equal(0);

        const certificate = await certificates.issued({
          ca_id: issuing.id,
          csr_pem: readFileSync(join(folder, "csr.pem"), "utf8"),
        });

        write("leaf.pem", certificate.certificate_pem);
        const { stdout } = openssl("x509", "-noout", "-text", "-in", "leaf.pem");
        expect(stdout).to.include("DNS:csr.example.com, IP Address:192.0.2.9");
        expect(stdout).to.include("TLS Web Server Authentication\n");
        expect(stdout).not.to.match(/CA:TRUE|Certificate Sign|CRL Sign|Code Signing|OCSP Signing/);
        const keyOfLeaf = openssl("x509", "-noout", "-pubkey", "-in", "leaf.pem").stdout;
        expect(keyOfLeaf).to.equal(openssl("pkey", "-in", "key.pem", "-pubout").stdout);
      }
    });
  });
});
