import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A certificate of this machine for a day, signed by itself. */
export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: Buffer;
  readonly key: Buffer;
  remove(): void;
}

/** Made by the machine's openssl; undefined when there is none. */
export function makeCertificate(): Certificate | undefined {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"];
  const subject = ["-subj", "/CN=holdfast", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"];
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    const files = ["-keyout", keyFile, "-out", certFile];
    execFileSync("openssl", ["req", "-x509", ...kind, ...subject, ...files], { stdio: "ignore" });
  } catch {
    remove();
    return undefined;
  }
  return { certFile, keyFile, cert: readFileSync(certFile), key: readFileSync(keyFile), remove };
}
