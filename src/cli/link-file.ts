import { readFile } from "node:fs/promises";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { type CreateLinkRequest, CreateLinkRequestSchema } from "../../gen/ts/holdfast/links/v1/link_service_pb.ts";
import { readStandardInput } from "./ask.ts";
import { usage } from "./failure.ts";

/** Where a link leads, in a file or on standard input for "-". What is wrong with it is told without repeating it. */
export async function readLinkFile(file: string): Promise<Pick<CreateLinkRequest, "config" | "credentials">> {
  const text = file === "-" ? (await readStandardInput()).toString("utf8") : await readNamed(file);
  try {
    const json = JSON.parse(text) as JsonValue;
    const { config, credentials } = fromJson(CreateLinkRequestSchema, json, { ignoreUnknownFields: true });
    if (config !== undefined) return { config, ...(credentials !== undefined && { credentials }) };
  } catch {
    // The reason would show what may be a credential.
  }
  throw usage(`${file === "-" ? "standard input" : file} must hold JSON: {"config": {…}, "credentials": {…}}`);
}

function readNamed(file: string): Promise<string> {
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw usage(`cannot read ${file} (${error.code})`);
  });
}
