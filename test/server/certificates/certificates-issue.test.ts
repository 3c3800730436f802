import { createHash, createPrivateKey, randomUUID, X509Certificate } from "node:crypto";
import { expect } from "chai";
import { CertificateService } from "../../../gen/ts/holdfast/certificates/v1/certificate_service_pb.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { type CertificateRecord, Certificates, certificatesPath, faultsOf, parsed } from "./certificates.ts";

const server = useServer();
const authorities = new Authorities(server);
const certificates = new Certificates(server);

const dayMs = 86_400_000;
const minuteMs = 60_000;
const secondOf = (time: string) => Math.floor(Date.parse(time) / 1000) * 1000;
const lengthOf = ({ created_at, not_after }: CertificateRecord) => Date.parse(not_after) - secondOf(created_at);

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

  it("gives every certificate of many at once a serial number of its own", async () => {
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => certificates.issued({ ca_id: root.id, profile: "client" })),
    );

    expect(new Set(answers.map(({ serial_number }) => serial_number)).size).to.equal(40);
  });

  it("replays the answer under an Idempotency-Key with the key, and not with the key any more after five minutes", async () => {
    const headers = { "idempotency-key": randomUUID() };
    const post = () => certificates.post({ ca_id: root.id }, server.admin, headers);
    const before = await certificates.counts();

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
    expect((await certificates.counts()).certificates).to.equal(before.certificates + 1);
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

  it("is issued at once while keys of RSA are being made", async function () {
    this.timeout(60_000);
    const order: string[] = [];
    const issue = async (key_algorithm: string, fields: object = {}) => {
      await certificates.issued({ ca_id: root.id, key_algorithm, ...fields });
      order.push(key_algorithm);
    };
    const slow = Array.from({ length: 6 }, () => issue("RSA", { key_size: 3072 }));
    await Promise.all([...slow, issue("ECDSA")]);

    expect(order.indexOf("ECDSA")).to.be.below(3);
  });

  it("belongs to no project any more when its project is deleted", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "short-lived" });
    const { id } = await certificates.issued({ ca_id: root.id, project_id: project.id });

    const { status } = await server.admin.rest("DELETE", `/api/v1/projects/${project.id}`);

    expect(status).to.equal(204);
    expect(await certificates.get(id)).to.include({ project_id: null, status: "active" });
  });

  it("is as many as there may be in a project that is deleted, and in none that is not", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "large" });
    const { id } = await certificates.issued({ ca_id: root.id, project_id: project.id });
    await certificates.copy(id, 5000);
    const path = `/api/v1/projects/${project.id}`;
    const secret = { key: "k", value: "v", project_id: project.id };
    const { body: held } = await server.admin.rest("POST", "/api/v1/secrets", secret);
    const inProject = async () => (await certificates.list(`project_id=${project.id}`)).pagination.total;

    const refused = await server.admin.rest("DELETE", path);
    const kept = await inProject();
    await server.admin.rest("DELETE", `/api/v1/secrets/${held.id}`);
    const done = await server.admin.rest("DELETE", path);

    expect([refused.status, kept, done.status]).to.deep.equal([409, 5001, 204]);
    const [left] = await server.sql(
      "select count(*)::int as n, count(project_id)::int as held from certificate where created_by = 'copy'",
    );
    expect(left).to.deep.equal({ n: 5000, held: 0 });
  });
});
