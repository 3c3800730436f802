import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

interface Issued {
  readonly certFile: string;
  readonly keyFile: string;
}

const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/** A certificate authority that nobody trusts yet. */
export class Authority {
  readonly #folder: string;
  #issued = 0;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Made by the machine's openssl; undefined when there is none. */
  static make(): Authority | undefined {
    const authority = new Authority(mkdtempSync(join(tmpdir(), "holdfast-test-")));
    const kind = ["-subj", "/CN=authority", "-addext", "basicConstraints=critical,CA:TRUE", "-days", "1"];
    try {
      authority.#openssl("req", "-x509", ...newKey, "-keyout", "ca.key", "-out", "ca.pem", ...kind);
      return authority;
    } catch {
      authority.remove();
      return undefined;
    }
  }

  /** Its own certificate in PEM. */
  get certificate(): string {
    return readFileSync(join(this.#folder, "ca.pem"), "utf8");
  }

  /** A certificate for such names, as in "IP:127.0.0.1", for so many days from now; negative for one that has expired. */
  issue(names: string, days = 1): Issued {
    const name = `${this.#issued++}`;
    const [key, request, cert, extensions] = ["key", "csr", "pem", "ext"].map((end) => `${name}.${end}`) as [
      string,
      string,
      string,
      string,
    ];
    writeFileSync(join(this.#folder, extensions), `subjectAltName=${names}\n`);
    this.#openssl("req", ...newKey, "-keyout", key, "-out", request, "-subj", "/CN=database");
    const by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", `${days}`, "-extfile", extensions];
    this.#openssl("x509", "-req", "-in", request, "-out", cert, ...by);
    return { certFile: join(this.#folder, cert), keyFile: join(this.#folder, key) };
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #openssl(...args: string[]): void {
    execFileSync("openssl", args, { cwd: this.#folder, stdio: "ignore" });
  }
}
