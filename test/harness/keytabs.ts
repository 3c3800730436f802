import { randomBytes } from "node:crypto";
import { keyOf, parseKeytab } from "../../src/standards/keytab.ts";
import { keytabWriter, version2 } from "../standards/keytab-files.ts";
import type { Client } from "./client.ts";

/** The keys of one principal in a file. */
export interface KeytabParts {
  /** Without its realm. */
  readonly principal?: string;
  readonly realm?: string;
  readonly kvno?: number;
  /** By number, one entry each. */
  readonly enctypes?: readonly number[];
}

/** A keytab file with random keys, so that no two are the same; they are printable, so that a leak shows as text too. */
export function newKeytab(...parts: readonly KeytabParts[]): Buffer {
  const { file, entry } = keytabWriter(version2);
  const given = parts.length === 0 ? [{}] : parts;
  const entries = given.flatMap((each) => {
    const { principal = "HTTP/web.example.com", realm = "EXAMPLE.COM", kvno = 1, enctypes = [18] } = each;
    const names = { realm, components: principal.split("/"), kvno8: kvno % 256, tail: kvno };
    return enctypes.map((enctype) => entry({ ...names, enctype, key: Buffer.from(randomBytes(16).toString("hex")) }));
  });
  return file(...entries);
}

/** The bytes of each key in a file. */
export const keysOf = (file: Buffer): Buffer[] =>
  parseKeytab(file).entries.map((entry) => Buffer.from(keyOf(file, entry)));

/** Imports a file, a new one unless it is given, and answers its record. */
export async function importKeytab(by: Client, file = newKeytab(), fields: Record<string, unknown> = {}) {
  const request = { name: "web server", keytab_data: file.toString("base64"), ...fields };
  const { status, body } = await by.rest("POST", "/api/v1/keytabs", request);
  if (status !== 201) throw new Error(`no keytab: ${JSON.stringify(body)}`);
  return body;
}
