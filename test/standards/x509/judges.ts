import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toPem } from "../../../src/standards/x509/pem.ts";

export interface Chain {
  readonly root: Uint8Array;
  /** From the lowest to the highest, without the root. */
  readonly intermediates: readonly Uint8Array[];
  readonly leaf: Uint8Array;
}

/** Whether a program found a certificate valid, and what it said. */
export interface Verdict {
  readonly isValid: boolean;
  readonly output: string;
}

/** Other software that verifies certificates, with files for it; they are gone after `close`. */
export class Judges implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), "holdfast-test-"));

  /** Writes certificates into one file, in PEM. */
  write(name: string, ...certificates: readonly Uint8Array[]): string {
    const path = join(this.#folder, name);
    writeFileSync(path, certificates.map((der) => toPem("CERTIFICATE", der)).join(""));
    return path;
  }

  /** By openssl, as the certificate of a server or a client and to the letter of RFC 5280. */
  openssl({ root, intermediates, leaf }: Chain, purpose: "sslserver" | "sslclient" = "sslserver"): Verdict {
    const trusted = ["-CAfile", this.write("root.pem", root)];
    const between = intermediates.flatMap((each, index) => ["-untrusted", this.write(`${index}.pem`, each)]);
    const files = [...trusted, ...between, this.write("leaf.pem", leaf)];
    return this.#run("openssl", "verify", "-x509_strict", "-purpose", purpose, ...files);
  }

  /** By GnuTLS, which wants the chain from the certificate to the root. */
  gnutls({ root, intermediates, leaf }: Chain): Verdict {
    return this.#run("certtool", "--verify-chain", "--infile", this.write("chain.pem", leaf, ...intermediates, root));
  }

  /** What openssl prints of a certificate. */
  opensslText(certificate: Uint8Array): string {
    return this.#run("openssl", "x509", "-noout", "-text", "-in", this.write("printed.pem", certificate)).output;
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true });
  }

  #run(program: string, ...args: string[]): Verdict {
    const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
    return { isValid: status === 0, output: stdout + stderr };
  }
}
