import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { KeytabFormat } from "../../src/standards/keytab-entry.ts";

/** Files that the tests read, and files that they write byte by byte. */

const folder = new URL("../fixtures/keytabs/", import.meta.url);

/** What MIT reads in a file that is sound; described in the README beside the files. */
export interface Readable {
  readonly sha256: string;
  readonly file_version: "0x0501" | "0x0502";
  readonly byte_order: "big" | "little";
  readonly entries: readonly {
    readonly principal: string;
    readonly realm: string;
    readonly components: readonly string[];
    readonly name_type: number | null;
    readonly kvno: number;
    readonly enctype: number;
    readonly enctype_name: string | null;
    readonly timestamp: number;
    readonly key_length: number;
    readonly key_hex: string;
  }[];
  readonly summary: {
    readonly principal: string;
    readonly realm: string;
    readonly kvno: number;
    readonly encryption_types: readonly string[];
    readonly entry_count: number;
  };
  readonly klist_output?: readonly string[];
}

export interface Damaged {
  readonly reason: string;
  readonly recommended: "reject" | "either";
}

export interface Fixture<Description> {
  readonly name: string;
  readonly path: string;
  readonly bytes: Buffer;
  readonly description: Description;
}

function fixtures<Description>(kind: string): readonly Fixture<Description>[] {
  const at = new URL(`${kind}/`, folder);
  const names = readdirSync(at).filter((name) => name.endsWith(".keytab"));
  return names.sort().map((file) => {
    const name = file.replace(".keytab", "");
    const description = JSON.parse(readFileSync(new URL(`${name}.json`, at), "utf8")) as Description;
    const path = fileURLToPath(new URL(file, at));
    return { name, path, bytes: readFileSync(path), description };
  });
}

export const readable = fixtures<Readable>("valid");
export const damaged = fixtures<Damaged>("malformed");

export function readableFile(name: string): Fixture<Readable> {
  const found = readable.find((fixture) => fixture.name === name);
  if (found === undefined) throw new Error(`no fixture ${name}`);
  return found;
}

export const version2: KeytabFormat = { version: 2, byteOrder: "big" };
export const formats: readonly KeytabFormat[] = [
  version2,
  { version: 1, byteOrder: "little" },
  { version: 1, byteOrder: "big" },
];

export interface EntryParts {
  readonly realm?: string | Buffer;
  readonly components?: readonly (string | Buffer)[];
  /** Instead of how many there are. */
  readonly count?: number;
  readonly nameType?: number | null;
  readonly timestamp?: number;
  readonly kvno8?: number;
  readonly enctype?: number;
  readonly key?: Buffer;
  /** What follows the key: a number is a kvno of 32 bits. */
  readonly tail?: number | Buffer;
}

/** Puts the bytes of a file together. */
export function keytabWriter({ version, byteOrder }: KeytabFormat) {
  /** In two's complement, so many bytes of it. */
  function int(value: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    bytes.writeUIntBE(value >= 0 ? value : value + 2 ** (8 * length), 0, length);
    return byteOrder === "little" ? bytes.reverse() : bytes;
  }

  function data(content: string | Buffer): Buffer {
    const bytes = Buffer.from(content);
    return Buffer.concat([int(bytes.length, 2), bytes]);
  }

  /** What a record has after its length. */
  function content({
    realm = "R",
    components = ["a"],
    nameType = 1,
    tail = Buffer.alloc(0),
    ...parts
  }: EntryParts = {}) {
    const { timestamp = 0, kvno8 = 1, enctype = 18, key = Buffer.alloc(16, 0xaa) } = parts;
    return Buffer.concat([
      int(parts.count ?? components.length + (version === 1 ? 1 : 0), 2),
      data(realm),
      ...components.map(data),
      version === 1 ? Buffer.alloc(0) : int(nameType ?? 0, 4),
      int(timestamp, 4),
      int(kvno8, 1),
      int(enctype, 2),
      data(key),
      typeof tail === "number" ? int(tail, 4) : tail,
    ]);
  }

  const record = (content: Buffer, size = content.length) => Buffer.concat([int(size, 4), content]);
  const hole = (length: number) => record(Buffer.alloc(length), -length);
  const entry = (parts?: EntryParts) => record(content(parts));
  const file = (...records: readonly Buffer[]) => Buffer.concat([Buffer.from([5, version]), ...records]);
  return { int, content, record, hole, entry, file };
}
