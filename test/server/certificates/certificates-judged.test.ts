import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { isMissing } from "../../harness/installed.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { Certificates } from "./certificates.ts";

const server = useServer({ OCSP_URL: "http://status.example.com/" });
const authorities = new Authorities(server);
const certificates = new Certificates(server);

describe("A certificate as openssl sees it", () => {
  let root: AuthorityRecord;
  let issuing: AuthorityRecord;
  let folder = "";
  const openssl = (...args: string[]) => spawnSync("openssl", args, { encoding: "utf8", cwd: folder });
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);

  before(async function () {
    if (isMissing("openssl")) this.skip();
    root = await authorities.root();
    issuing = await authorities.below(root);
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

  it("verifies below authorities of RSA with 4096 bits, whose signatures come in time, many at once too", async function () {
    this.timeout(120_000);
    const rsa = { key_algorithm: "RSA", key_size: 4096 };
    const slow = await authorities.root(rsa);
    const slower = await authorities.below(slow, rsa);
    const start = performance.now();
    const issued = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        certificates.issued({ ca_id: slower.id, subject: { common_name: `host${index}.example.com` } }),
      ),
    );

    expect(performance.now() - start).to.be.below(10_000);
    write("slow.pem", slow.certificate_pem);
    for (const { certificate_pem, chain_pem } of issued.slice(0, 2)) {
      write("leaf.pem", certificate_pem);
      write("chain.pem", chain_pem);
      const verified = openssl("verify", "-x509_strict", "-CAfile", "slow.pem", "-untrusted", "chain.pem", "leaf.pem");
      expect(verified.status, verified.stderr).to.equal(0);
    }
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
