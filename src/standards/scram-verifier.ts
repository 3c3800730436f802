import { createHash, createHmac, pbkdf2, randomBytes } from "node:crypto";
import { promisify } from "node:util";

const derive = promisify(pbkdf2);

/** Of RFC 7677 section 4, and what PostgreSQL takes unless it is told otherwise. */
const iterations = 4096;

/**
 * What a server keeps to check a password by SCRAM-SHA-256 (RFC 5802, RFC 7677), in the form of RFC 5803 that PostgreSQL
 * takes in place of the password. Of ASCII only, which SASLprep leaves as it is.
 */
export async function scramVerifier(password: string, salt: Buffer = randomBytes(16)): Promise<string> {
  const salted = await derive(password, salt, iterations, 32, "sha256");
  const keyOf = (name: string) => createHmac("sha256", salted).update(name).digest();
  const storedKey = createHash("sha256").update(keyOf("Client Key")).digest("base64");
  const serverKey = keyOf("Server Key").toString("base64");
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${storedKey}:${serverKey}`;
}
