import { expect } from "chai";
import {
  encodeResponse,
  encodeResponseData,
  errorResponses,
  responderParts,
} from "../../../src/standards/ocsp/response.ts";
import { type RevocationReason, revocationReasons } from "../../../src/standards/x509/revocation-reasons.ts";

const bytes = (hex: string) => Buffer.from(hex.replaceAll(" ", ""), "hex");
const time = (text: string) => Buffer.from(text).toString("hex");

const responder = responderParts(bytes("aa".repeat(20)), bytes("30 00"), bytes("30 03 020107"));
const answer = {
  certId: bytes("30 03 020101"),
  certificate: { status: "good" as const },
  archiveCutoff: undefined,
};
const statement = {
  answers: [answer],
  thisUpdate: new Date("2026-11-22T03:04:00.999Z"),
  nextUpdate: new Date("2026-11-22T04:04:00.001Z"),
  nonce: undefined,
};
const thisUpdate = `180f ${time("20261122030400Z")}`;
const nextUpdate = `a011 180f ${time("20261122040400Z")}`;
const id = `a216 0414 ${"aa".repeat(20)}`;

describe("An OCSP response", () => {
  it("names the responder by its key, and has times of whole seconds", () => {
    const data = encodeResponseData(responder, statement);

    const single = `302b 3003020101 8000 ${thisUpdate} ${nextUpdate}`;
    expect(data).to.deep.equal(bytes(`3058 ${id} ${thisUpdate} 302d ${single}`));
  });

  it("says when and why a certificate was revoked, but not that nobody said why", () => {
    const at = new Date("2026-11-20T01:02:03.999Z");
    const revoked = (reason: RevocationReason) =>
      encodeResponseData(responder, {
        ...statement,
        answers: [{ ...answer, certificate: { status: "revoked", at, reason } }],
      }).toString("hex");
    const revokedAt = `180f${time("20261120010203Z")}`;

    expect(revoked("unspecified")).to.include(`a111${revokedAt}180f`);
    for (const [reason, code] of Object.entries(revocationReasons)) {
      if (code === 0) continue;
      expect(revoked(reason as RevocationReason)).to.include(`a116${revokedAt}a0030a010${code}`);
    }
  });

  it("says that a certificate is unknown, and from when on statuses are kept", () => {
    const unknown = { ...answer, certificate: { status: "unknown" as const } };
    const kept = { ...answer, archiveCutoff: new Date("2020-01-02T03:04:05Z") };

    const data = encodeResponseData(responder, { ...statement, answers: [unknown, kept] }).toString("hex");

    expect(data).to.include("30030201018200180f");
    expect(data).to.include(`a1223020301e06092b06010505073001060411180f${time("20200102030405Z")}`);
  });

  it("repeats a nonce within two OCTET STRINGs, also where its length takes two octets", () => {
    const data = (length: number) =>
      encodeResponseData(responder, { ...statement, nonce: Buffer.alloc(length, 7) }).toString("hex");

    expect(data(1)).to.match(/a1143012301006092b06010505073001020403040107$/);
    expect(data(128)).to.match(/06092b06010505073001020481830481800707/);
  });

  it("carries the signature and the certificate of whoever signed", () => {
    const data = encodeResponseData(responder, statement);

    const response = encodeResponse(responder, data, bytes("0102"));

    const basic = `306a ${data.toString("hex")} 3000 0303000102 a007 3005 3003020107`;
    expect(response).to.deep.equal(bytes(`308180 0a0100 a07b 3079 06092b0601050507300101 046c ${basic}`));
  });

  it("is five octets when it is an error", () => {
    const written = Object.entries(errorResponses).map(([name, der]) => `${name} ${der.toString("hex")}`);

    expect(written).to.deep.equal([
      "malformedRequest 30030a0101",
      "internalError 30030a0102",
      "tryLater 30030a0103",
      "unauthorized 30030a0106",
    ]);
  });
});
