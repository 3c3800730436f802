import { readFile } from "node:fs/promises";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import {
  type CipherPolicy,
  UpdateCipherPolicyRequestSchema,
} from "../../gen/ts/holdfast/keytabs/v1/cipher_policy_service_pb.ts";
import { enctypeFamily } from "../standards/enctypes.ts";
import { usage } from "./failure.ts";

/** What a cipher policy says. */
export type PolicyTerms = Pick<CipherPolicy, "allowedCiphers" | "deprecatedCiphers" | "enforcementMode">;

/** A policy in a file, in JSON as the REST API takes it, or as `keytab policy get --json` prints it. */
export async function readPolicyFile(file: string): Promise<PolicyTerms> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw usage(`cannot read ${file} (${error.code})`);
  });
  const policy = policyOf(file, text);
  const families = policy.allowedCiphers.filter((name) => enctypeFamily(name) !== undefined);
  if (families.length > 0) throw usage(`${file}: name each type, not the families ${families.join(", ")}`);
  return policy;
}

function policyOf(file: string, text: string): PolicyTerms {
  try {
    const json = JSON.parse(text) as JsonValue;
    return fromJson(UpdateCipherPolicyRequestSchema, json, { ignoreUnknownFields: true });
  } catch (error) {
    throw usage(`${file} is no cipher policy in JSON: ${(error as Error).message}`);
  }
}
