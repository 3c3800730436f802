import { createHash, randomBytes } from "node:crypto";
import { opensslPower } from "../../src/server/auth/srp-power.ts";
import { rfc5054Group3072 as group } from "../../src/standards/srp.ts";
import { multiplier, pad, scrambler, toBytes, toInteger } from "../../src/standards/srp-formulas.ts";
import { type Answer, HttpConnection } from "./http-connection.ts";
import { type SrpJob, Stopwatch, serveJobs } from "./load.ts";
import { post } from "./subjects.ts";

// A process that logs in users whose verifier is g, one login at a time on each connection. That x is 1, and the client's own
// key always the same, leaves it one power for a login: it runs on the same cores as the server, whose work is the same.

const { prime } = group;
const a = toInteger(randomBytes(32));
const A = await opensslPower(group.generator, a, group);
const clientPublicKey = pad(group, A);
const subtrahend = ((await multiplier(group)) * group.generator) % prime;

const hash = (...parts: (Uint8Array | string)[]) => {
  const sum = createHash("sha256");
  for (const part of parts) sum.update(part);
  return sum.digest();
};
const hashedPrime = hash(toBytes(prime));
const hashedGenerator = hash(toBytes(group.generator));
const hashedGroup = hashedPrime.map((byte, at) => byte ^ (hashedGenerator[at] ?? 0));

/** M1 of G-9.1, in Base64. */
async function proofOf(username: string, salt: Uint8Array, serverPublicKey: Uint8Array): Promise<string> {
  const B = toInteger(serverPublicKey);
  const u = await scrambler(group, A, B);
  const S = await opensslPower((B - subtrahend + prime) % prime, a + u, group);
  const K = hash(pad(group, S));
  return hash(hashedGroup, hash(username), salt, clientPublicKey, serverPublicKey, K).toString("base64");
}

async function logIn(connection: HttpConnection, username: string): Promise<void> {
  const { salt, server_public_key: serverPublicKey } = await exchange(connection, "init", { username });
  const clientProof = await proofOf(
    username,
    Buffer.from(salt as string, "base64"),
    Buffer.from(serverPublicKey as string, "base64"),
  );
  await exchange(connection, "verify", {
    username,
    client_public_key: Buffer.from(clientPublicKey).toString("base64"),
    client_proof: clientProof,
  });
}

async function exchange(connection: HttpConnection, step: string, body: object): Promise<Record<string, unknown>> {
  const { status, beginning } = await new Promise<Answer>((resolve, reject) =>
    connection.exchange(post(`/api/v1/auth/srp/${step}`, body), resolve, reject),
  );
  const text = beginning.toString();
  if (status !== 200) throw new Error(`${step}: ${text}`);
  return JSON.parse(text.slice(text.indexOf("\r\n\r\n"))) as Record<string, unknown>;
}

serveJobs(async (job: SrpJob) => {
  const { port, usernames } = job;
  const connections = await Promise.all(Array.from({ length: job.connections }, () => HttpConnection.open(port)));
  const stopwatch = new Stopwatch(job);
  const keepBusy = async (connection: HttpConnection, first: number) => {
    let turn = first;
    let beganAt: number;
    do {
      beganAt = performance.now();
      await logIn(connection, usernames[turn % usernames.length] as string);
      turn += connections.length;
    } while (stopwatch.answered(beganAt));
  };
  try {
    await Promise.all(connections.map(keepBusy));
  } finally {
    for (const each of connections) each.close();
  }
  return stopwatch.seen;
});
