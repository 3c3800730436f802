import { execFileSync } from "node:child_process";
import { generateKeyPairSync, randomBytes, X509Certificate } from "node:crypto";
import { publicKeyBits, subjectDer } from "../../src/standards/x509/certificates.ts";
import { certId, nonceExtension, ocspRequest } from "../standards/ocsp/requests.ts";
import { requestDer, requestPem } from "../standards/x509/requests.ts";
import { compare } from "./compare.ts";
import type { Effort } from "./options.ts";
import type { Holdfast, Stage } from "./stage.ts";
import { get, httpSubject, post, type Subject } from "./subjects.ts";
import type { Line } from "./table.ts";

const asked = 1000;
const speedSeconds = 2;

/**
 * OCSP answers from memory and signed anew, and certificates issued, against node:http alone, with one indexed SELECT, and
 * with one committed INSERT; and how often openssl signs with one core, which is the end of what signing can reach.
 */
export async function measureCertificates(stage: Stage, main: Holdfast, effort: Effort): Promise<Line[]> {
  const subject = { common_name: "Bench Root" };
  const root = { name: "bench answers", type: "root", subject };
  const { id: caId, certificate_pem: pem, ocsp_url: ocspUrl } = await main.api.post("/certificate-authorities", root);
  const issuing = { ca_id: caId, csr_pem: newRequest(), subject_alternative_names: { dns: ["bench.example.com"] } };
  const authority = new X509Certificate(pem as string).raw;
  const certIds: Buffer[] = [];
  for (let n = 0; n < asked; n += 1) {
    const { serial_number: serial } = await main.api.post("/certificates", issuing);
    certIds.push(certIdOf(authority, serial as string));
  }
  const responder = { ...main, port: Number(new URL(ocspUrl as string).port) };
  const http = stage.http();
  const queries = (requests: readonly Buffer[]) =>
    requests.map((der) => get(`/${encodeURIComponent(der.toString("base64"))}`));
  const answers = (requests: readonly Buffer[]): Subject =>
    httpSubject("OCSP", responder, http, { requests: queries(requests), expectedStatus: 200 });
  const floor = async (kind: string, requests = [get("/")]): Promise<Subject> =>
    httpSubject(kind, await stage.floor(kind), http, { requests, expectedStatus: 200 });
  const [bare, reading] = [await floor("F1"), await floor("F2")];
  const cached = answers(certIds.map((id) => ocspRequest({ certIds: [id] })));
  const signed = answers(
    certIds.map((id) => ocspRequest({ certIds: [id], extensions: [nonceExtension(randomBytes(32))] })),
  );
  const creating = [post("/api/v1/certificates", issuing, main.api.token)];
  const issued = httpSubject("REST", main, http, { requests: creating, expectedStatus: 201 });
  const against = [{ subject: bare }, { subject: reading }];
  return [
    ...(await compare({ name: "OCSP answer from memory", ours: cached, against }, effort)),
    ...(await compare({ name: "OCSP answer signed anew", ours: signed, against }, effort)),
    ...signingSpeed(),
    ...(await compare(
      { name: "issue a certificate", ours: issued, against: [{ subject: await floor("F5", creating) }] },
      effort,
    )),
  ];
}

function certIdOf(authority: Buffer, serialNumber: string): Buffer {
  const issuer = { name: subjectDer(authority), keyBits: publicKeyBits(authority) };
  return certId({ issuer, serial: Buffer.from(serialNumber, "hex") });
}

const newRequest = () => requestPem(requestDer(generateKeyPairSync("ec", { namedCurve: "P-256" })));

/** Signatures a second of one core by P-256, as the keys of responders are. None where openssl is not installed. */
function signingSpeed(): Line[] {
  try {
    const output = execFileSync("openssl", ["speed", "-seconds", String(speedSeconds), "-mr", "ecdsap256"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    const [, perSecond] = /^\+F4:\d+:256:([\d.]+):/m.exec(output) ?? [];
    return [{ scenario: "openssl speed ecdsap256, one core", figure: Number(perSecond), unit: "signatures/s" }];
  } catch {
    return [];
  }
}
