import { createHmac } from "node:crypto";

/** The header that carries it. */
export const signatureHeader = "x-holdfast-signature";

/**
 * What proves to the receiver of a webhook who sent it, and when: "t=<Unix seconds>,v1=<HMAC-SHA256 of 't.body' in hex>"
 * (gaps section 16). The receiver computes it anew, compares in constant time, and refuses a time that is long ago.
 */
export function signWebhook(secret: string, body: string, at: Date): string {
  const seconds = Math.floor(at.getTime() / 1000);
  return `t=${seconds},v1=${createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex")}`;
}
