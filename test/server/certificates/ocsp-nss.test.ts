import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { isMissing } from "../../harness/installed.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities } from "./authorities.ts";
import { issueFrom, revoke } from "./ocsp.ts";

/** Debian has them in libnss3-tools. */
const programs = ["certutil", "ocspclnt", "vfychain"];

describe("NSS as a client of OCSP, which finds the responder by the certificate", function () {
  this.timeout(60_000);
  const server = useServer();
  const authorities = new Authorities(server);
  let folder: string;
  before(function () {
    if (programs.some(isMissing)) this.skip();
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "holdfast-nss-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Runs a program on the database of certificates in the folder, beside this process, in which the responder is. */
  const run = (program: string, ...args: string[]) =>
    new Promise<string>((resolve, reject) => {
      execFile(program, ["-d", "sql:.", ...args], { cwd: folder, timeout: 20_000 }, (error, stdout, stderr) => {
        if (error?.killed === true) reject(error);
        else resolve(stdout + stderr);
      });
    });
  const add = (name: string, pem: string, trust = ",,") => {
    writeFileSync(join(folder, `${name}.pem`), pem);
    return run("certutil", "-A", "-n", name, "-t", trust, "-a", "-i", `${name}.pem`);
  };

  for (const kind of [
    { key_algorithm: "RSA", key_size: 2048 },
    { key_algorithm: "ECDSA", key_size: 256 },
    { key_algorithm: "ECDSA", key_size: 521 },
  ]) {
    it(`verifies answers for authorities with ${kind.key_algorithm} ${kind.key_size}`, async () => {
      const root = await authorities.root({ ...kind, max_path_length: 1 });
      const issuer = await authorities.below(root, kind);
      const [good, revoked] = [await issueFrom(server, issuer), await issueFrom(server, issuer)] as const;
      const never = await issueFrom(server, issuer);
      await revoke(server, revoked, "key_compromise");
      // By a replica whose clock is ahead.
      await server.sql(
        "update certificate_status set revoked_at = now() + interval '1 hour' where serial_number = $1",
        [revoked.serial_number],
      );
      await server.sql("delete from certificate_status where serial_number = $1", [never.serial_number]);
      await run("certutil", "-N", "--empty-password");
      await add("root", root.certificate_pem, "CT,C,C");
      for (const [name, record] of Object.entries({ issuer, good, revoked, never }))
        await add(name, record.certificate_pem);

      const check = (name: string) => run("ocspclnt", "-S", name);
      // Without an answer that verifies it would call none of them good.
      const verify = (name: string) => run("vfychain", "-pp", "-g", "leaf", "-m", "ocsp", "-s", "failIfNoInfo", name);

      expect(await check("good")).to.include("succeeded");
      expect(await check("issuer")).to.include("succeeded");
      expect(await check("revoked"))
        .to.include("failed")
        .and.to.include("has been revoked");
      expect(await check("never"))
        .to.include("failed")
        .and.to.include("no status for the certificate");
      expect(await verify("good")).to.include("Chain is good!");
      expect(await verify("revoked"))
        .to.include("Chain is bad!")
        .and.to.include("has been revoked");
      expect(await verify("never")).to.include("Chain is bad!");
    });
  }
});
