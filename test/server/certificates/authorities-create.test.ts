import { spawnSync } from "node:child_process";
import { createHash, createPublicKey, randomUUID, X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { CertificateAuthorityService } from "../../../gen/ts/holdfast/certificates/v1/certificate_authority_service_pb.ts";
import { publicKeyBits, subjectDer } from "../../../src/standards/x509/certificates.ts";
import { isMissing } from "../../harness/installed.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord, authoritiesPath, intermediateOf } from "./authorities.ts";

const server = useServer({ OCSP_URL: "http://status.example.com/" });
const authorities = new Authorities(server);

const dayMs = 86_400_000;
const daysOf = ({ created_at, not_after }: AuthorityRecord) => (Date.parse(not_after) - Date.parse(created_at)) / dayMs;
const certificateOf = ({ certificate_pem }: AuthorityRecord) => new X509Certificate(certificate_pem);
const fieldsOf = (body: AuthorityRecord) => body.error.details.map(({ field }: { field: string }) => field);

describe("CreateCertificateAuthority", () => {
  it("answers 201 with the record of a root, where it is, and what was given", async () => {
    const name = `authority-${randomUUID()}`;
    const subject = { common_name: "Example Root", organization: "Example", organizational_unit: "PKI" };
    const place = { country: "de", state: "Hessen", locality: "Köln" };
    const { status, headers, body } = await authorities.post({ name, subject: { ...subject, ...place } });

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(authoritiesPath(body.id));
    const { id, organization_id, serial_number, not_before, not_after, created_at, ...rest } = body;
    expect(rest).to.deep.equal({
      name,
      type: "root",
      parent_id: null,
      status: "active",
      subject: { ...subject, ...place, country: "DE" },
      key_algorithm: "ECDSA",
      key_size: 256,
      max_path_length: null,
      name_constraints: null,
      fingerprint_sha256: createHash("sha256").update(certificateOf(body).raw).digest("hex"),
      certificate_pem: certificateOf(body).toString(),
      chain_pem: "",
      ocsp_url: "http://status.example.com",
      crl_url: `http://status.example.com/crl/${id}.crl`,
      revoked_at: null,
      revocation_reason: null,
      created_by: server.admin.id,
      updated_at: created_at,
    });
    const [organization] = await server.sql("select id from organization");
    expect(organization_id).to.equal(organization.id);
    expect(certificateOf(body).serialNumber.toLowerCase()).to.equal(serial_number);
    expect(serial_number).to.match(/^[4-7][0-9a-f]{39}$/);
    expect(certificateOf(body).validFromDate.toISOString()).to.equal(not_before);
    expect(certificateOf(body).validToDate.toISOString()).to.equal(not_after);
    expect(await authorities.get(id)).to.deep.equal(body);
  });

  it("gives a root ten years, and an intermediate five or as long as its parent lasts; both from five minutes ago", async () => {
    const root = await authorities.root();
    const short = await authorities.root({ validity_days: 10 });
    const below = await authorities.below(root);
    const belowShort = await authorities.below(short);

    expect(daysOf(root)).to.be.closeTo(3650, 0.001);
    expect(daysOf(below)).to.be.closeTo(1825, 0.001);
    expect(belowShort.not_after).to.equal(short.not_after);
    const backdated = Date.parse(root.created_at) - Date.parse(root.not_before);
    expect(backdated).to.be.within(300_000, 301_000);
    expect(Date.parse(below.not_before)).to.be.at.least(Date.parse(root.not_before));
  });

  it("does not let an intermediate begin before its parent", async () => {
    const root = await authorities.root();
    await server.sql("update certificate_authority set not_before = date_trunc('second', now()) where id = $1", [
      root.id,
    ]);

    const below = await authorities.below(root);

    expect(below.not_before).to.equal((await authorities.get(root.id)).not_before);
  });

  const kinds: [algorithm: string, size: number, type: string, details: object][] = [
    ["ECDSA", 256, "ec", { namedCurve: "prime256v1" }],
    ["ECDSA", 384, "ec", { namedCurve: "secp384r1" }],
    ["ECDSA", 521, "ec", { namedCurve: "secp521r1" }],
    ["RSA", 2048, "rsa", { modulusLength: 2048, publicExponent: 65537n }],
    ["Ed25519", 256, "ed25519", {}],
  ];
  for (const [algorithm, size, type, details] of kinds) {
    it(`makes a key of ${algorithm} ${size}, with which it issues below it`, async function () {
      this.timeout(60_000);
      const root = await authorities.root({ key_algorithm: algorithm, key_size: size });
      const below = await authorities.below(root);

      expect([root.key_algorithm, root.key_size]).to.deep.equal([algorithm, size]);
      const { asymmetricKeyType, asymmetricKeyDetails } = certificateOf(root).publicKey;
      expect([asymmetricKeyType, asymmetricKeyDetails]).to.deep.equal([type, details]);
      expect(certificateOf(root).verify(certificateOf(root).publicKey)).to.equal(true);
      expect(certificateOf(below).verify(certificateOf(root).publicKey)).to.equal(true);
      expect(certificateOf(below).checkIssued(certificateOf(root))).to.equal(true);
    });
  }

  it("takes the usual size of an algorithm that is given without one: 3072 for RSA", async function () {
    this.timeout(60_000);
    const usual = async (algorithm: string) => (await authorities.root({ key_algorithm: algorithm })).key_size;

    expect([await usual("RSA"), await usual("ECDSA"), await usual("Ed25519")]).to.deep.equal([3072, 256, 256]);
  });

  it("makes chains that openssl takes, and that say where their status is to be had", async function () {
    if (isMissing("openssl")) this.skip();
    const root = await authorities.root({ max_path_length: 2 });
    const middle = await authorities.below(root, { max_path_length: 1, key_algorithm: "Ed25519" });
    const last = await authorities.below(middle, { name_constraints: { permitted: { dns: ["example.com"] } } });
    const folder = mkdtempSync(join(tmpdir(), "holdfast-chain-"));
    const write = (name: string, pem: string) => {
      writeFileSync(join(folder, name), pem);
      return join(folder, name);
    };

    try {
      const trusted = write("root.pem", root.certificate_pem);
      const chain = write("chain.pem", last.chain_pem);
      const end = write("last.pem", last.certificate_pem);
      const verify = ["verify", "-x509_strict", "-CAfile", trusted, "-untrusted", chain, end];
      expect(spawnSync("openssl", verify, { encoding: "utf8" })).to.include({ status: 0, stdout: `${end}: OK\n` });
      const { stdout } = spawnSync("openssl", ["x509", "-noout", "-text", "-in", end], { encoding: "utf8" });
      expect(stdout).to.match(/CA:TRUE, pathlen:0\n/);
      expect(stdout).to.include("DNS:example.com");
      expect(stdout).to.include("OCSP - URI:http://status.example.com\n");
      expect(stdout).to.include(`CA Issuers - URI:http://status.example.com/ca/${middle.id}.crt\n`);
      expect(stdout).to.include(`URI:http://status.example.com/crl/${middle.id}.crl\n`);
    } finally {
      rmSync(folder, { recursive: true });
    }
    expect(last.chain_pem).to.equal(middle.certificate_pem + root.certificate_pem);
  });

  it("allows authorities below it by max_path_length: any below a root, and none below an intermediate unless given", async () => {
    const root = await authorities.root();
    const usual = await authorities.below(root);
    const wide = await authorities.below(root, { max_path_length: 2 });
    const narrow = await authorities.below(wide, { max_path_length: 1 });

    expect([root, usual, wide, narrow].map((each) => each.max_path_length)).to.deep.equal([null, 0, 2, 1]);
    const belowUsual = await authorities.post(intermediateOf(usual));
    expect([belowUsual.status, belowUsual.body.error.message]).to.deep.equal([
      409,
      "the parent certificate authority allows no authority below it",
    ]);
    const asWide = await authorities.post({ ...intermediateOf(wide), max_path_length: 2 });
    expect([asWide.status, ...fieldsOf(asWide.body)]).to.deep.equal([400, "max_path_length"]);
  });

  it("keeps name constraints in their canonical form, and none that name nothing", async () => {
    const constraints = {
      permitted: { dns: ["EXAMPLE.com"], ip: ["10.0.0.0/8"] },
      excluded: { email: [".example.org"] },
    };
    const none = { dns: [], ip: [], email: [], uri: [] };

    const { name_constraints: kept } = await authorities.root({ name_constraints: constraints });
    const empty = await authorities.root({ name_constraints: { permitted: { dns: [] } } });

    expect(kept).to.deep.equal({
      permitted: { ...none, dns: ["example.com"], ip: ["10.0.0.0/8"] },
      excluded: { ...none, email: [".example.org"] },
    });
    expect(empty.name_constraints).to.equal(null);
  });

  const limits: [field: string, refused: unknown[]][] = [
    ["name", ["", "ü".repeat(256), undefined, null, 5]],
    ["type", ["", "ROOT", "leaf", null]],
    ["parent_id", ["", "nonsense"]],
    ["subject", [null, undefined, "CN=x"]],
    ["subject.common_name", [{}, { common_name: "" }, { common_name: "x".repeat(65) }, { common_name: "a\u0007" }]],
    [
      "subject.country",
      [
        { common_name: "x", country: "DEU" },
        { common_name: "x", country: "1A" },
      ],
    ],
    ["subject.organization", [{ common_name: "x", organization: " blank" }]],
    ["key_algorithm", ["", "ecdsa", "DSA"]],
    ["key_size", [1024, 2048, 255, "x"]],
    ["validity_days", [0, 36501, -1, 1.5]],
    ["max_path_length", [-1, 17]],
    ["name_constraints.permitted.dns[1]", [{ permitted: { dns: ["example.com", "not a domain"] } }]],
    ["name_constraints.excluded.ip[0]", [{ excluded: { ip: ["10.0.0.0/33"] } }]],
  ];
  for (const [field, refused] of limits) {
    it(`refuses a bad ${field}, and names it`, async () => {
      for (const value of refused) {
        const [name = ""] = field.split(".");
        const { status, body } = await authorities.post({ [name]: value });
        expect([status, body.error.code], JSON.stringify([value, body])).to.deep.equal([400, "VALIDATION_ERROR"]);
        expect(fieldsOf(body), JSON.stringify([value, body])).to.include(field);
      }
    });
  }

  it("refuses a size that does not go with the algorithm, and names every field that is wrong", async () => {
    const wrong: [string, number][] = [
      ["RSA", 256],
      ["ECDSA", 2048],
      ["Ed25519", 384],
    ];
    for (const [algorithm, size] of wrong) {
      const { status, body } = await authorities.post({ key_algorithm: algorithm, key_size: size, subject: {} });
      expect([status, ...fieldsOf(body)], algorithm).to.deep.equal([400, "key_size", "subject.common_name"]);
    }
  });

  it("asks for a parent of an intermediate, and for none of a root", async () => {
    const root = await authorities.root();

    const orphan = await authorities.post({ type: "intermediate" });
    const child = await authorities.post({ type: "root", parent_id: root.id });

    expect([orphan.status, child.status]).to.deep.equal([400, 400]);
  });

  it("refuses a parent that is not there, or another organization's", async () => {
    const { admin } = await server.otherOrganization();
    const theirs = await authorities.root({}, admin);

    for (const parent_id of [randomUUID(), theirs.id]) {
      const { status, body } = await authorities.post({ ...intermediateOf(theirs), parent_id });
      expect([status, body.error.code, ...fieldsOf(body)]).to.deep.equal([404, "RESOURCE_NOT_FOUND", "parent_id"]);
    }
  });

  it("refuses a parent that is disabled, revoked or expired, and says which", async () => {
    const disabled = await authorities.root();
    await authorities.put(disabled.id, { status: "disabled" });
    const revoked = await authorities.root();
    await authorities.revoke(revoked.id);
    const expired = await authorities.root();
    await authorities.expire(expired.id);

    for (const [parent, status] of [
      [disabled, "disabled"],
      [revoked, "revoked"],
      [expired, "expired"],
    ]) {
      const answer = await authorities.post(intermediateOf(parent));
      expect([answer.status, answer.body.error.code, answer.body.error.message]).to.deep.equal([
        409,
        "RESOURCE_CONFLICT",
        `the parent certificate authority is ${status}`,
      ]);
    }
  });

  it("refuses to outlive the parent when told how long to last", async () => {
    const root = await authorities.root({ validity_days: 100 });

    const longer = await authorities.post({ ...intermediateOf(root), validity_days: 101 });
    const shorter = await authorities.below(root, { validity_days: 99 });

    expect([longer.status, ...fieldsOf(longer.body)]).to.deep.equal([400, "validity_days"]);
    expect(daysOf(shorter)).to.be.closeTo(99, 0.001);
  });

  it("refuses a name that the organization has already, and not one that another has", async () => {
    const { name } = await authorities.root();
    const { admin } = await server.otherOrganization();

    const again = await authorities.post({ name });
    const elsewhere = await authorities.post({ name }, admin);

    expect([again.status, again.body.error.code]).to.deep.equal([409, "RESOURCE_CONFLICT"]);
    expect(again.body.error.details).to.deep.equal([{ field: "name", message: "already exists in this organization" }]);
    expect(elsewhere.status).to.equal(201);
  });

  it("makes one authority of one Idempotency-Key", async () => {
    const fields = { name: `authority-${randomUUID()}` };
    const headers = { "idempotency-key": randomUUID() };

    const first = await authorities.post(fields, server.admin, headers);
    const second = await authorities.post(fields, server.admin, headers);

    expect([first.status, second.status]).to.deep.equal([201, 201]);
    expect(second.headers.get("idempotency-replayed")).to.equal("true");
    expect(second.body).to.deep.equal(first.body);
  });

  it("keeps what OCSP, revocation lists and their signer begin with", async () => {
    const root = await authorities.root();
    const below = await authorities.below(root);

    for (const authority of [root, below]) {
      const status = await authorities.statusOf(authority);
      expect(status.not_after.toISOString()).to.equal(authority.not_after);
      expect([status.revoked_at, status.revocation_reason]).to.deep.equal([null, null]);
      const kept = await server.sql("select name_hash, key_hash from issuer_hash where ca_id = $1", [authority.id]);
      const { raw } = certificateOf(authority);
      const expected = ["sha1", "sha256", "sha384", "sha512"].map((hash) =>
        [subjectDer(raw), publicKeyBits(raw)].map((bytes) => createHash(hash).update(bytes).digest("hex")).join(" "),
      );
      const found = kept.map(({ name_hash, key_hash }) => `${name_hash.toString("hex")} ${key_hash.toString("hex")}`);
      expect(found).to.have.members(expected);
      const [rows] = await server.sql(
        `select (select count(*)::int from ocsp_signer where ca_id = $1) as signers,
           (select count(*)::int from crl where ca_id = $1) as lists,
           (select count(*)::int from data_key where record_id = $1) as keys`,
        [authority.id],
      );
      expect(rows).to.deep.equal({ signers: 1, lists: 1, keys: 1 });
    }
  });

  it("is recorded with what was made, and when it is refused", async () => {
    const root = await authorities.root();
    const below = await authorities.below(root, { validity_days: 7 });
    await authorities.post({ name: below.name, key_size: 521 });

    const events = await server.sql(
      `select outcome, resource_type, resource_name, resource_id, details::jsonb from audit_event
       where action = 'ca.create' and resource_name = $1 order by sequence`,
      [below.name],
    );
    const common = { resource_type: "ca", resource_name: below.name };
    expect(events).to.deep.equal([
      {
        outcome: "success",
        ...common,
        resource_id: below.id,
        details: {
          type: "intermediate",
          parent_id: root.id,
          key_algorithm: "ECDSA",
          key_size: 256,
          serial_number: below.serial_number,
          not_after: below.not_after,
        },
      },
      { outcome: "failure", ...common, resource_id: null, details: {} },
    ]);
  });

  it("does the same over gRPC", async () => {
    const grpc = server.admin.grpc(CertificateAuthorityService);
    const request = { name: `authority-${randomUUID()}`, type: "root", subject: { commonName: "Over gRPC" } };

    try {
      const made = await grpc.createCertificateAuthority(request, server.admin.metadata());
      const again = await grpc.createCertificateAuthority(request, server.admin.metadata()).catch((error) => error);

      expect(made.subject?.commonName).to.equal("Over gRPC");
      expect(createPublicKey(made.certificatePem).asymmetricKeyType).to.equal("ec");
      expect((await authorities.get(made.id)).fingerprint_sha256).to.equal(made.fingerprintSha256);
      expect(again.code).to.equal(6);
    } finally {
      grpc.close();
    }
  });
});
