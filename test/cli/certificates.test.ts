import { createPrivateKey, X509Certificate } from "node:crypto";
import { readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { pemText } from "../../src/cli/certificate-text.ts";
import { useServer } from "../harness/server.ts";
import { newCsr } from "../server/certificates/certificates.ts";
import { Crls } from "../server/certificates/crls.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

const nowhere = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";

describe("holdfast ca and cert", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => administrator(server));
  const path = (name: string) => join(cli().home, name);
  const certificates = (text: string) =>
    (text.match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----\n/g) ?? []).map(
      (pem) => new X509Certificate(pem),
    );
  before(async () => {
    await cli().print(["ca", "create", "root", "--cn", "Example Root", "--organization", "Example", "--days", "900"]);
    await cli().print("ca create issuing --parent root --permit-dns example.com --algorithm RSA --size 2048");
  });

  it("make authorities, the one below the other, named by name or id", async () => {
    const root = await cli().json("ca get root");
    const issuing = await cli().json(`ca get ${(await cli().json("ca get issuing")).id}`);

    expect(root).to.deep.include({
      name: "root",
      type: "root",
      key_algorithm: "ECDSA",
      key_size: 256,
      parent_id: null,
    });
    expect(root.subject).to.include({ common_name: "Example Root", organization: "Example" });
    expect(issuing).to.deep.include({ type: "intermediate", parent_id: root.id, key_algorithm: "RSA", key_size: 2048 });
    expect(issuing.subject.common_name).to.equal("issuing");
    expect(issuing.name_constraints.permitted.dns).to.deep.equal(["example.com"]);
    expect(issuing).to.deep.equal(
      (await server.admin.rest("GET", `/api/v1/certificate-authorities/${issuing.id}`)).body,
    );
  });

  it("list and show authorities for people", async () => {
    const table = await cli().print("ca list --type intermediate");
    const shown = await cli().print("ca get root");

    expect(table).to.match(/^NAME +TYPE +STATUS +KEY +EXPIRES +ID\nissuing +intermediate +active +RSA 2048 /);
    expect(shown).to.match(/^subject +CN=Example Root, O=Example$/m);
    expect(shown).to.match(/^path length +any$/m);
  });

  it("export the chain of an authority", async () => {
    const [issuing, root, ...others] = certificates(await cli().print("ca export issuing"));

    expect(others).to.deep.equal([]);
    expect(issuing?.checkIssued(root as X509Certificate)).to.equal(true);
    expect(root?.checkIssued(root)).to.equal(true);
  });

  it("issue a certificate with a key that is written for its owner only", async () => {
    const { stdout, stderr, status } = await cli().run(
      "cert issue --ca issuing --cn db.example.com --dns alt.example.com --key db.key --days 30",
    );

    const [leaf] = certificates(stdout);
    const key = readFileSync(path("db.key"), "utf8");
    expect(status).to.equal(0);
    expect(certificates(stdout)).to.have.length(3);
    expect(leaf?.subjectAltName).to.equal("DNS:alt.example.com, DNS:db.example.com");
    expect(leaf?.checkPrivateKey(createPrivateKey(key))).to.equal(true);
    expect(statSync(path("db.key")).mode & 0o777).to.equal(0o600);
    expect(stderr).to.match(/^holdfast: wrote db\.key, for its owner only\nholdfast: issued CN=db\.example\.com: \S+;/);
    expect(stdout + stderr).not.to.contain("PRIVATE KEY");
  });

  it("issue a certificate for a request, from a file or standard input, into a file", async () => {
    const { csr, privateKey } = await newCsr("CN=web.example.com");
    writeFileSync(path("web.csr"), csr);

    await cli().print("cert issue --ca issuing --csr web.csr -o web.pem");
    const record = await cli().json("cert issue --ca issuing --csr - --profile client", { input: csr });

    const [leaf] = certificates(readFileSync(path("web.pem"), "utf8"));
    expect(leaf?.checkPrivateKey(createPrivateKey({ key: privateKey, format: "der", type: "pkcs8" }))).to.equal(true);
    expect(record).to.include({ profile: "client", status: "active" });
    expect(record).not.to.have.property("private_key_pem");
  });

  it("ask for a file for the key before anything is issued, and leave none behind when nothing is", async () => {
    const before = await cli().json("cert list");

    const without = await cli().run("cert issue --ca issuing --cn db.example.com");
    const nowhereToWrite = await cli().run("cert issue --ca issuing --cn db.example.com --key no/such/folder/db.key");
    const refused = await cli().run("cert issue --ca issuing --cn db.example.net --key refused.key");

    expect([without.status, nowhereToWrite.status, refused.status]).to.deep.equal([2, 2, 7]);
    expect(without.stderr).to.contain("--key");
    expect(refused.stderr).to.contain("common_name");
    expect(await cli().json("cert list")).to.deep.equal(before);
    expect(readdirSync(cli().home).filter((name) => name.startsWith("refused"))).to.deep.equal([]);
  });

  it("replace no key that is there, unless they are forced to, and make sure of every file before", async () => {
    writeFileSync(path("only.key"), "the only one of its kind");
    const before = await cli().json("cert list");
    const issue = "cert issue --ca root --cn files.example.com";

    const there = await cli().run(`${issue} --key only.key`);
    const noPlace = await cli().run(`${issue} --key fresh.key -o no/such/folder/db.pem`);
    const sameFile = await cli().run(`${issue} --key both.pem -o ./both.pem`);

    expect([there.status, noPlace.status, sameFile.status]).to.deep.equal([2, 2, 2]);
    expect(there.stderr).to.contain("only.key is there already").and.to.contain("--force");
    expect(readFileSync(path("only.key"), "utf8")).to.equal("the only one of its kind");
    expect(readdirSync(cli().home).filter((name) => /^(fresh|both)/.test(name))).to.deep.equal([]);
    expect(await cli().json("cert list")).to.deep.equal(before);
    expect((await cli().run(`${issue} --key only.key --force`)).status).to.equal(0);
    expect(readFileSync(path("only.key"), "utf8")).to.match(/^-----BEGIN PRIVATE KEY-----/);
  });

  it("follow no symbolic link where a key is to be", async () => {
    writeFileSync(path("elsewhere"), "");
    symlinkSync(path("elsewhere"), path("link.key"));

    for (const force of ["", " --force"]) {
      expect((await cli().run(`cert issue --ca root --cn l.example.com --key link.key${force}`)).status).to.equal(2);
    }
    expect(readFileSync(path("elsewhere"), "utf8")).to.equal("");
  });

  it("renew nothing when there is no place for the successor", async () => {
    const { id } = await cli().json("cert issue --ca root --cn once.example.com");

    const { status } = await cli().run(`cert renew ${id} -o no/such/folder/db.pem`);

    expect(status).to.equal(2);
    expect(await cli().json(`cert get ${id}`)).to.include({ renewed_by: null });
  });

  it("take nothing for PEM that could steer a terminal", async () => {
    const pem = await cli().print("ca export root");

    expect(pemText(pem)).to.equal(pem);
    for (const hostile of [`${pem}\x1b]0;title\x07`, pem.replace("M", "\r"), `${pem}\u202e`, "", "no PEM"]) {
      expect(() => pemText(hostile)).to.throw("the server's answer is no PEM");
    }
  });

  it("put the key into the JSON when no file is named", async () => {
    const record = await cli().json("cert issue --ca root --cn json.example.com");

    expect(record.private_key_pem).to.match(/^-----BEGIN PRIVATE KEY-----/);
    expect(await cli().json(`cert get ${record.id}`)).not.to.have.property("private_key_pem");
  });

  it("find certificates by what they are, and by id and serial number in any form", async () => {
    const { id, serial_number: serial } = await cli().json("cert issue --ca root --cn find.example.com");
    const colons = serial.toUpperCase().match(/../g).join(":");

    const found = await cli().json("cert list --ca root --search FIND --status active");
    const shown = await cli().print(`cert get ${colons}`);
    const missing = await cli().run(`cert get ${nowhere}`);
    const unknown = await cli().run(`cert get ${serial.replace(/^../, "7f")}`);

    expect(found.map((each: { id: string }) => each.id)).to.deep.equal([id]);
    expect(shown)
      .to.contain(id)
      .and.to.match(/^names +find\.example\.com$/m);
    expect([missing.status, unknown.status]).to.deep.equal([5, 5]);
  });

  it("download, renew and revoke certificates", async () => {
    const { id } = await cli().json("cert issue --ca root --cn old.example.com --auto-renew");
    await cli().print(`cert download ${id} --format der -o old.der`);
    const pem = await cli().print(`cert download ${id}`);
    const renewed = await cli().json(`cert renew ${id} --days 10`);
    await cli().print(`cert update ${renewed.id} --no-auto-renew`);
    await cli().print(`cert revoke ${id} --reason superseded --yes`);

    const old = await cli().json(`cert get ${id}`);
    expect(readFileSync(path("old.der"))).to.deep.equal(certificates(pem)[0]?.raw);
    expect(renewed).to.include({ renewal_of: id, auto_renew: true });
    expect(await cli().json(`cert get ${renewed.id}`)).to.include({ auto_renew: false });
    expect(old).to.include({ status: "revoked", revocation_reason: "superseded", renewed_by: renewed.id });
  });

  it("ask before they revoke", async () => {
    const { id } = await cli().json("cert issue --ca root --cn asked.example.com");

    const { status, stderr } = await cli().run(`cert revoke ${id}`);

    expect(status).to.equal(2);
    expect(stderr).to.contain("--yes");
    expect(await cli().json(`cert get ${id}`)).to.include({ status: "active" });
  });

  it("switch authorities off and on, and revoke them", async () => {
    await cli().print("ca create brief --parent root");

    await cli().print("ca update brief --disable");
    const refused = await cli().run("cert issue --ca brief --cn off.example.com --key off.key");
    await cli().print("ca update brief --enable --name short");
    await cli().print("ca revoke short --reason cessation_of_operation --yes");

    expect(refused.status).to.equal(6);
    expect(await cli().json("ca get short")).to.include({
      status: "revoked",
      revocation_reason: "cessation_of_operation",
    });
  });

  it("fetch the revocation list of an authority", async () => {
    const { id } = JSON.parse(await cli().print("ca create listed --json"));
    const early = await cli().run("ca crl listed --format pem");
    await new Crls(server).rebuild(id);

    const crl = await cli().print("ca crl listed --format pem");

    expect(early.status).to.equal(8);
    expect(early.stderr).to.contain("has no revocation list yet");
    expect(crl).to.match(/^-----BEGIN X509 CRL-----\n[^]+-----END X509 CRL-----\n$/);
  });
});
