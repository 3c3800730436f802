import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { isMissing } from "../../harness/installed.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { issueFrom, responderOf, revoke } from "./ocsp.ts";

const words = (text: string) => text.split(" ");

/** Runs openssl beside this process, in which the responder is. */
function openssl(args: readonly string[]): Promise<{ status: number | null; output: string }> {
  const child = spawn("openssl", args, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  return new Promise((resolve) => child.once("close", (status) => resolve({ status, output })));
}

describe("openssl as a client of OCSP", function () {
  this.timeout(60_000);
  const server = useServer();
  const authorities = new Authorities(server);
  let folder: string;
  before(function () {
    if (isMissing("openssl")) this.skip();
    folder = mkdtempSync(join(tmpdir(), "holdfast-ocsp-"));
  });
  after(() => folder && rmSync(folder, { recursive: true }));

  let files = 0;
  const write = (content: string | Uint8Array) => {
    files += 1;
    const path = join(folder, `${files}.pem`);
    writeFileSync(path, content);
    return path;
  };
  /** What verifies the answer: the root alone is trusted, the signer comes with the answer. */
  const trusting = (root: AuthorityRecord, issuer: AuthorityRecord) => {
    const issuerFile = write(issuer.certificate_pem);
    return words(`-CAfile ${write(root.certificate_pem)} -verify_other ${issuerFile} -issuer ${issuerFile}`);
  };
  const byPost = (args: readonly string[]) => openssl(["ocsp", ...args, "-url", responderOf(server.server)]);
  /** openssl posts only: it makes the request, and judges the answer. */
  const byGet = async (args: readonly string[]) => {
    const [query, answer] = [write(""), write("")];
    await openssl(["ocsp", ...args, "-no_nonce", "-reqout", query]);
    const encoded = encodeURIComponent(readFileSync(query).toString("base64"));
    const response = await fetch(`${responderOf(server.server)}/ocsp/${encoded}`);
    writeFileSync(answer, Buffer.from(await response.arrayBuffer()));
    return openssl(["ocsp", ...args, "-no_nonce", "-respin", answer]);
  };

  const kinds = [
    { key_algorithm: "RSA", key_size: 2048 },
    { key_algorithm: "ECDSA", key_size: 256 },
    { key_algorithm: "ECDSA", key_size: 384 },
    { key_algorithm: "ECDSA", key_size: 521 },
    { key_algorithm: "Ed25519" },
  ];
  for (const kind of kinds) {
    it(`verifies answers for authorities with ${kind.key_algorithm} ${kind.key_size ?? ""}, by POST and by GET`, async () => {
      const root = await authorities.root({ ...kind, max_path_length: 1 });
      const issuer = await authorities.below(root, {
        ...kind,
        name_constraints: { permitted: { dns: ["example.com"] } },
      });
      const [good, revoked] = [await issueFrom(server, issuer), await issueFrom(server, issuer)] as const;
      await revoke(server, revoked, "key_compromise");
      const issued = trusting(root, issuer);
      const [goodFile, revokedFile] = [write(good.certificate_pem), write(revoked.certificate_pem)];

      for (const hash of ["-sha1", "-sha256"]) {
        for (const via of [byPost, byGet]) {
          const both = [...issued, hash, "-cert", goodFile, hash, "-cert", revokedFile];
          const { status, output } = await via(both);

          expect(status, output).to.equal(0);
          expect(output).to.match(/^Response verify OK$/m);
          expect(output).to.include(`${goodFile}: good`).and.to.include(`${revokedFile}: revoked`);
          expect(output).to.match(/Reason: keyCompromise/);
          expect(output).not.to.match(/nonce in response|warning/i);
        }
      }
      const about = [...trusting(root, root), "-cert", write(issuer.certificate_pem)];
      expect((await byPost(about)).output).to.match(/Response verify OK[^]*: good/);
    });
  }

  it("is told that an authority of another's is none of ours, and what was never issued is unknown", async () => {
    const root = await authorities.root();
    const [key, other] = [join(folder, "other.key"), join(folder, "other.pem")];
    const made = await openssl(
      words(
        `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=Example -keyout ${key} -out ${other}`,
      ),
    );
    expect(made.status, made.output).to.equal(0);

    const foreign = await byPost(["-CAfile", other, "-issuer", other, "-serial", "0x1234"]);
    const unknown = await byPost([...trusting(root, root), "-serial", "0x1234"]);

    expect(foreign.output).to.include("Responder Error: unauthorized (6)");
    expect(unknown.output).to.include("Response verify OK").and.to.include("0x1234: unknown");
  });
});
