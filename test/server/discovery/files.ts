import { createHash, randomBytes } from "node:crypto";
import type { ServiceError } from "@grpc/grpc-js";
import type { Answer, Client } from "../../harness/client.ts";
import type { Found } from "../../harness/host.ts";
import { detailsOf } from "../wire/rpc-status.ts";

/** What an agent says of a file; each time of another file with the keys of another principal. */
export const someFile = (filePath: string, fields: Found = {}): Found => ({
  filePath,
  root: "/etc",
  keytabHash: hashOf(randomBytes(32)),
  principal: `HTTP/${randomBytes(6).toString("hex")}.example.com@EXAMPLE.COM`,
  realm: "EXAMPLE.COM",
  kvnos: [1],
  encryptionTypes: ["aes256-cts-hmac-sha1-96"],
  filePermissions: "0600",
  fileOwner: "root:root",
  ...fields,
});

/** So many files below a folder. */
export const someFiles = (count: number, folder = "/etc"): Found[] =>
  Array.from({ length: count }, (_, index) => someFile(`${folder}/${index}.keytab`));

export const hashOf = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

/** An agent, as far as it is looked for. */
interface WithId {
  readonly id: string;
}

/** The records that a query finds, at most a hundred. */
export async function discovered(by: Client, query = "") {
  const { status, body } = await by.rest("GET", `/api/v1/keytabs/discovered?limit=100&${query}`);
  if (status !== 200) throw new Error(`no list: ${JSON.stringify(body)}`);
  // oxlint-disable-next-line typescript/no-explicit-any
  return body.data as any[];
}

/** The record of a file of an agent, and of an agent with one file only, of that one. */
export async function recordOf(by: Client, { id }: WithId, filePath?: string) {
  const all = await discovered(by, `agent_id=${id}`);
  const record = filePath === undefined ? all[0] : all.find((each) => each.file_path === filePath);
  if (record === undefined) throw new Error(`no record of ${filePath ?? "any file"}`);
  return record;
}

/** The state of each file of an agent, by its path. */
export async function statesOf(by: Client, { id }: WithId): Promise<Record<string, string>> {
  return Object.fromEntries((await discovered(by, `agent_id=${id}`)).map((each) => [each.file_path, each.state]));
}

/** The statuses of answers, whichever came first. */
export const statusesOf = (answers: readonly Answer[]) => answers.map(({ status }) => status).toSorted((a, b) => a - b);

/** The fields that a gRPC call was refused for. */
export async function fieldsAtFault(call: Promise<unknown>): Promise<string[]> {
  const { metadata } = await call.then(
    () => Promise.reject(new Error("the call was not refused")),
    (error: ServiceError) => error,
  );
  const [status] = metadata.get("grpc-status-details-bin");
  return detailsOf(status as Buffer).faults.map(({ field }) => field);
}
