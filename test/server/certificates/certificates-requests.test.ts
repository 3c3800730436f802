import { createPrivateKey } from "node:crypto";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { Certificates, csrOf, faultsOf, newCsr, noNames, parsed } from "./certificates.ts";

const server = useServer();
const authorities = new Authorities(server);
const certificates = new Certificates(server);

describe("A certificate for a signing request", () => {
  let root: AuthorityRecord;

  before(async () => {
    root = await authorities.root();
  });

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

  it("has its country in capitals, in the record as in the certificate", async () => {
    const { csr } = await newCsr("CN=csr.example.com, C=fr");

    const certificate = await certificates.issued({ ca_id: root.id, csr_pem: csr });

    expect(certificate.subject.country).to.equal("FR");
    expect(parsed(certificate).subject).to.match(/^C=FR$/m);
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
    const before = await certificates.counts();
    for (const [name, fields, field] of cases) {
      const answer = await certificates.post({ ca_id: root.id, ...fields });

      expect(answer.status, name).to.equal(400);
      expect(faultsOf(answer), name).to.have.keys(field);
    }
    expect(await certificates.counts()).to.deep.equal(before);
  });

  it("names csr_pem for names in it that cannot be", async () => {
    const { csr } = await newCsr("CN=csr.example.com", [["dns", "under_score.example.com"]]);

    const answer = await certificates.post({ ca_id: root.id, csr_pem: csr });

    expect(answer.status).to.equal(400);
    expect(faultsOf(answer)["csr_pem"]).to.match(/^subject_alternative_names\.dns\[0\] /);
  });

  it("refuses a key that was compromised in this organization, and in no other one", async () => {
    const below = await authorities.below(root);
    const { csr, keys } = await newCsr();
    const { id } = await certificates.issued({ ca_id: root.id, csr_pem: csr });
    const again = await csrOf(keys, "CN=again.example.com");
    await certificates.revoke(id, { reason: "superseded" });
    const allowed = await certificates.post({ ca_id: root.id, csr_pem: again });
    await certificates.revoke(id, { reason: "key_compromise" });
    const before = await certificates.counts();

    const refused = await certificates.post({ ca_id: below.id, csr_pem: again });
    const other = await server.otherOrganization();
    const theirs = await authorities.root({}, other.admin);
    const elsewhere = await certificates.post({ ca_id: theirs.id, csr_pem: again }, other.admin);

    expect(allowed.status).to.equal(201);
    expect(refused.status).to.equal(400);
    expect(faultsOf(refused)).to.have.keys("csr_pem");
    expect(elsewhere.status).to.equal(201);
    expect((await certificates.counts()).certificates).to.equal(before.certificates + 1);
  });
});
