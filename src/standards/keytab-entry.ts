import { isUtf8 } from "node:buffer";

/** The layout of one record of a keytab file, and the text of its principal. */

/** Version 1 is in the byte order of the machine that wrote it, version 2 always big-endian. */
export interface KeytabFormat {
  readonly version: 1 | 2;
  readonly byteOrder: "big" | "little";
}

export interface KeytabEntry {
  /** As MIT prints it, realm included: `HTTP/web.example.com@EXAMPLE.COM`. Equal texts are equal principals. */
  readonly principal: string;
  readonly realm: string;
  readonly components: readonly string[];
  /** Says little, since tools write 0 or 1 for anything; null in version 1, which has none. */
  readonly nameType: number | null;
  /** When the entry was written, in seconds since 1970; 0 from tools of Windows. */
  readonly timestamp: number;
  /** The number of the key's version, unsigned. */
  readonly kvno: number;
  readonly enctype: number;
  /** Where in the file the key is. Its bytes are in no entry, so that no log has them. */
  readonly key: Span;
}

/** So many bytes of the file. */
export interface Span {
  readonly offset: number;
  readonly length: number;
}

/**
 * No keytab, or a damaged one. The message names the byte, counted from 0, and no number read from the file: in a
 * damaged one that may be a part of a key.
 */
export class KeytabError extends Error {
  readonly offset: number;

  constructor(offset: number, fault: string) {
    super(`byte ${offset}: ${fault}`);
    this.offset = offset;
  }
}

/** Lengths and counts have 16 bits, but MIT and Heimdal take the greater half for negative and end there. */
const mostOfAny = 0x7fff;

/** Reads the record whose content is at `content`: it may have more in it than an entry, and not less. */
export function readEntry(file: Buffer, content: Span, format: KeytabFormat): KeytabEntry {
  const fields = new Fields(file, content, format.byteOrder === "little");
  // Version 1 counts the realm too.
  const count = fields.count("number of components", format.version === 1 ? 1 : 0);
  const realm = fields.data("realm");
  const components: Buffer[] = [];
  while (components.length < count) components.push(fields.data("component"));
  const nameType = format.version === 1 ? null : fields.int32("name type");
  const timestamp = fields.uint32("timestamp");
  const kvno8 = fields.uint8("kvno");
  const enctype = fields.int16("enctype");
  const key = fields.span("key");
  // What follows may be a kvno of 32 bits, padding, or what is left of a longer entry that was here before.
  const kvno32 = fields.left >= 4 ? fields.uint32("kvno") : 0;
  return {
    principal: `${components.map(escapedText).join("/")}@${escapedText(realm)}`,
    realm: plainText(realm),
    components: components.map(plainText),
    nameType,
    timestamp,
    kvno: kvno32 === 0 ? kvno8 : kvno32,
    enctype,
    key,
  };
}

/** Reads the fields of one record, one after the other. */
class Fields {
  readonly #file: Buffer;
  readonly #view: DataView;
  readonly #littleEndian: boolean;
  readonly #end: number;
  #at: number;

  constructor(file: Buffer, { offset, length }: Span, littleEndian: boolean) {
    this.#file = file;
    this.#view = new DataView(file.buffer, file.byteOffset, file.length);
    this.#littleEndian = littleEndian;
    this.#at = offset;
    this.#end = offset + length;
  }

  get left(): number {
    return this.#end - this.#at;
  }

  uint8(field: string): number {
    return this.#view.getUint8(this.#pass(1, field));
  }

  int16(field: string): number {
    return this.#view.getInt16(this.#pass(2, field), this.#littleEndian);
  }

  int32(field: string): number {
    return this.#view.getInt32(this.#pass(4, field), this.#littleEndian);
  }

  uint32(field: string): number {
    return this.#view.getUint32(this.#pass(4, field), this.#littleEndian);
  }

  /** A number of 16 bits without those that it counts beside its subject. */
  count(field: string, beside = 0): number {
    const start = this.#at;
    const count = this.#view.getUint16(this.#pass(2, field), this.#littleEndian) - beside;
    if (count <= 0) throw new KeytabError(start, `the ${field} is 0`);
    if (count > mostOfAny) throw new KeytabError(start, `the ${field} is above ${mostOfAny}`);
    return count;
  }

  /** A length and so many bytes, of which these are the place. */
  span(field: string): Span {
    const start = this.#at;
    const length = this.count(`length of the ${field}`);
    return { offset: this.#pass(length, field, start), length };
  }

  data(field: string): Buffer {
    const { offset, length } = this.span(field);
    return this.#file.subarray(offset, offset + length);
  }

  #pass(length: number, field: string, start = this.#at): number {
    const offset = this.#at;
    if (length > this.left) {
      throw new KeytabError(start, `the ${field} goes past the end of its record at byte ${this.#end}`);
    }
    this.#at += length;
    return offset;
  }
}

const escapes: Readonly<Record<string, string>> = {
  "\\": "\\\\",
  "/": "\\/",
  "@": "\\@",
  "\n": "\\n",
  "\t": "\\t",
  "\b": "\\b",
  "\0": "\\0",
};

/** A component or realm within a principal. */
const escapedText = (bytes: Buffer) =>
  textOf(bytes, (text) => text.replace(/[\\/@\n\t\b\0]/g, (character) => escapes[character] ?? character));

/** A component or realm by itself. NUL is the one character that a text in PostgreSQL cannot have. */
const plainText = (bytes: Buffer) => textOf(bytes, (text) => text.split("\0").join("\\0"));

const beyondAscii = Array.from({ length: 256 }, (_, byte) => `\\x${byte.toString(16)}`);

/** Names are bytes, nearly always UTF-8. One that is not has each byte beyond ASCII shown, as in `jos\xe9`. */
function textOf(bytes: Buffer, escape: (text: string) => string): string {
  if (isUtf8(bytes)) return escape(bytes.toString());
  return escape(bytes.toString("latin1")).replace(/[^\0-\x7f]/g, (byte) => beyondAscii[byte.charCodeAt(0)] ?? byte);
}
