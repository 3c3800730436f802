import { randomBytes } from "node:crypto";
import {
  clientKeys,
  rfc5054Group3072 as group,
  isSameProof,
  proveLogin,
  saltLength,
  verifierFor,
} from "../../src/standards/srp.ts";
import { type Answer, Client } from "./client.ts";

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");

/** What a client makes of a password to enroll with or to change to. */
export async function passwordFields(username: string, password: string) {
  const salt = randomBytes(saltLength);
  const verifier = await verifierFor(group, salt, username.toLowerCase(), password);
  return { salt: base64(salt), verifier: base64(verifier) };
}

/** Sets the first password of a user. */
export async function enroll(nobody: Client, username: string, token: string, password: string): Promise<void> {
  const fields = { username, enrollment_token: token, ...(await passwordFields(username, password)) };
  const { status, body } = await nobody.rest("POST", "/api/v1/auth/srp/enroll", fields);
  if (status !== 201) throw new Error(`${username} is not enrolled: ${JSON.stringify(body)}`);
}

/** The second step of a login, ready to be sent. */
export async function beginLogin(nobody: Client, username: string, password: string) {
  const begun = await nobody.rest("POST", "/api/v1/auth/srp/init", { username });
  if (begun.status !== 200) throw new Error(`no login begun: ${JSON.stringify(begun.body)}`);
  const keys = clientKeys(group);
  const proofs = await proveLogin({
    group,
    username: username.toLowerCase(),
    password,
    salt: Buffer.from(begun.body.salt, "base64"),
    keys,
    serverPublicKey: Buffer.from(begun.body.server_public_key, "base64"),
  });
  const request = {
    username,
    client_public_key: base64(keys.publicKey),
    client_proof: base64(proofs.clientProof),
  };
  return { request, serverProof: proofs.serverProof };
}

/** Both steps of a login with a password, and the server's answer to the second. */
export async function tryPassword(nobody: Client, username: string, password: string): Promise<Answer> {
  const { request, serverProof } = await beginLogin(nobody, username, password);
  const answer = await nobody.rest("POST", "/api/v1/auth/srp/verify", request);
  if (answer.status === 200 && !isSameProof(serverProof, Buffer.from(answer.body.server_proof, "base64"))) {
    throw new Error("the server does not know the password");
  }
  return answer;
}

/** Logs a user in. */
export async function loginAs(nobody: Client, username: string, password: string): Promise<Client> {
  const { status, body } = await tryPassword(nobody, username, password);
  if (status !== 200) throw new Error(`login failed: ${JSON.stringify(body)}`);
  const { sub } = JSON.parse(Buffer.from(body.access_token.split(".")[1] ?? "", "base64url").toString());
  return new Client(nobody.url, body.access_token, sub);
}
