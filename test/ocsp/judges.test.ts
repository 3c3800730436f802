import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { newSerialNumber } from "../../src/standards/x509/serial-number.ts";
import { isMissing } from "../harness/installed.ts";
import { type Kind, TestAuthority } from "./authority.ts";
import { MemorySource } from "./memory-source.ts";
import { ResponderUnderTest } from "./responder-under-test.ts";

/** Every kind of authority, asked about by the clients of others. */
for (const kind of ["RSA", "ECDSA", "Ed25519"] as const satisfies readonly Kind[]) {
  describe(`Answers for an authority with a key of ${kind}`, () => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-ocsp-"));
    const source = new MemorySource();
    const at = (name: string) => join(folder, name);
    let responder: ResponderUnderTest;

    before(async () => {
      const [authority, other] = [await TestAuthority.create(kind), await TestAuthority.create(kind)];
      await source.add(authority);
      responder = await ResponderUnderTest.start(source);
      const serials = { good: newSerialNumber(), revoked: newSerialNumber(), unknown: newSerialNumber() };
      writeFileSync(at("ca.pem"), authority.pem);
      writeFileSync(at("other.pem"), other.pem);
      for (const [name, serial] of Object.entries(serials)) {
        writeFileSync(at(`${name}.pem`), await authority.issue(serial));
        if (name !== "unknown") source.issue(authority, serial);
      }
      source.revoke(authority, serials.revoked, "key_compromise", new Date("2026-11-20T01:02:03Z"));
    });

    after(async () => {
      await responder.close();
      rmSync(folder, { recursive: true });
    });

    function run(program: string, ...args: string[]): Promise<string> {
      return new Promise((resolve, reject) => {
        execFile(program, args, { cwd: folder, timeout: 15_000 }, (error, stdout, stderr) => {
          if (error?.killed === true) reject(error);
          else resolve(stdout + stderr);
        });
      });
    }

    describe("are right for openssl", () => {
      before(function () {
        if (isMissing("openssl")) this.skip();
      });

      const ask = (...args: string[]) =>
        run("openssl", "ocsp", "-CAfile", "ca.pem", "-issuer", "ca.pem", "-url", responder.url, ...args);
      const verified = /^Response verify OK$/m;

      it("that asks by SHA-1 and SHA-256, with a nonce and without", async () => {
        for (const hash of [[], ["-sha256"], ["-sha384"], ["-sha512"]]) {
          for (const nonce of [[], ["-no_nonce"]]) {
            const args = [...hash, ...nonce, "-cert", "good.pem"];

            const output = await ask(...args);

            expect(output, args.join(" ")).to.match(verified);
            expect(output).to.match(/^good\.pem: good$/m);
            expect(output).not.to.match(/WARNING/);
          }
        }
      });

      it("that asks about several at once", async () => {
        const output = await ask("-cert", "good.pem", "-cert", "revoked.pem", "-cert", "unknown.pem");

        expect(output).to.match(verified);
        expect(output).to.match(/^good\.pem: good$/m);
        expect(output).to.match(
          /^revoked\.pem: revoked\n.*\n.*\n\s*Reason: keyCompromise\n\s*Revocation Time: Nov 20 01:02:03 2026 GMT$/m,
        );
        expect(output).to.match(/^unknown\.pem: unknown$/m);
      });

      it("that asks by GET", async () => {
        for (const name of ["good", "revoked", "unknown"]) {
          const hash = name === "good" ? ["-sha256"] : [];
          const about = ["-issuer", "ca.pem", ...hash, "-cert", `${name}.pem`, "-no_nonce"];
          await run("openssl", "ocsp", ...about, "-reqout", "request.der");
          const { body } = await responder.get(`/${encodeURIComponent(readFileSync(at("request.der"), "base64"))}`);
          writeFileSync(at("answer.der"), body);

          const output = await run("openssl", "ocsp", ...about, "-CAfile", "ca.pem", "-respin", "answer.der");

          expect(output).to.match(verified);
          expect(output).to.match(new RegExp(`^${name}\\.pem: ${name}$`, "m"));
        }
      });

      it("that asks at another path, and about another issuer", async () => {
        const at = (...args: string[]) => run("openssl", "ocsp", "-CAfile", "ca.pem", ...args);

        const stranger = await at("-issuer", "other.pem", "-cert", "good.pem", "-url", `${responder.url}/ocsp`);
        const known = await at("-issuer", "ca.pem", "-cert", "good.pem", "-url", `${responder.url}/ocsp/`);

        expect(stranger).to.match(/Responder Error: unauthorized \(6\)/);
        expect(known).to.match(verified);
      });
    });

    describe("are right for gnutls", () => {
      before(function () {
        if (isMissing("ocsptool")) this.skip();
      });

      it("that asks with a nonce", async () => {
        const certificates = ["--load-cert", "good.pem", "--load-issuer", "ca.pem", "--load-trust", "ca.pem"];

        const output = await run("ocsptool", `--ask=${responder.url}`, "--nonce", ...certificates);

        expect(output).to.match(/Certificate Status: good/);
        expect(output).to.match(/Verifying OCSP Response: Success\./);
      });

      it("that asks about one that was revoked, and one that was never issued", async () => {
        const ask = (name: string) =>
          run("ocsptool", `--ask=${responder.url}`, "--load-cert", `${name}.pem`, "--load-issuer", "ca.pem");

        expect(await ask("revoked")).to.match(/Certificate Status: revoked\n\s*Revocation time: Fri Nov 20 01:02:03/);
        expect(await ask("unknown")).to.match(/Certificate Status: unknown/);
      });
    });
  });
}
