/**
 * DER (ITU-T X.690) as far as OCSP and revocation lists need it: tags of one octet and definite, minimal lengths. What is
 * written is made of whole values, innermost first. What is read may be hostile: reading neither copies nor recurses.
 */

/** Tags of the types that are written or read here, of the class "universal". */
export const tags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  enumerated: 0x0a,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** The tag [number] of an explicitly tagged value, or of an implicitly tagged one that is made of others. */
export const contextTag = (number: number): number => 0xa0 | number;

/** The tag [number] in place of that of a simple type. */
export const primitiveContextTag = (number: number): number => 0x80 | number;

/** The tag and length before contents of `length` octets, below 2^32: for what is too long to be in memory at once. */
export function header(tag: number, length: number): Buffer {
  if (length < 0x80) return Buffer.of(tag, length);
  const octets = length < 0x100 ? 1 : length < 0x1_0000 ? 2 : length < 0x100_0000 ? 3 : 4;
  const bytes = Buffer.allocUnsafe(2 + octets);
  bytes[0] = tag;
  bytes[1] = 0x80 | octets;
  bytes.writeUIntBE(length, 2, octets);
  return bytes;
}

/** A value: tag, length and the contents one after the other. */
export function tlv(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const length = contents.reduce((sum, part) => sum + part.length, 0);
  return Buffer.concat([header(tag, length), ...contents]);
}

export const sequence = (...contents: readonly Uint8Array[]): Buffer => tlv(tags.sequence, ...contents);

/** A value that is tagged [number] explicitly. */
export const explicit = (number: number, ...contents: readonly Uint8Array[]): Buffer =>
  tlv(contextTag(number), ...contents);

export const octetString = (...contents: readonly Uint8Array[]): Buffer => tlv(tags.octetString, ...contents);

/** A BIT STRING of whole octets. */
export const bitString = (...contents: readonly Uint8Array[]): Buffer => tlv(tags.bitString, Buffer.of(0), ...contents);

export const boolean = (value: boolean): Buffer => tlv(tags.boolean, Buffer.of(value ? 0xff : 0));

/** An ENUMERATED of 0 to 127. */
export const enumerated = (value: number): Buffer => tlv(tags.enumerated, Buffer.of(value));

/** An INTEGER that is not negative, of hexadecimal digits with or without leading zeros. */
export function integerFromHex(digits: string): Buffer {
  const bare = digits.replace(/^0+(?=.)/, "");
  const octets = Buffer.from(bare.length % 2 === 0 ? bare : `0${bare}`, "hex");
  const isNegative = ((octets[0] as number) & 0x80) !== 0;
  return isNegative ? tlv(tags.integer, Buffer.of(0), octets) : tlv(tags.integer, octets);
}

/** An OBJECT IDENTIFIER in dotted form, as in "1.3.6.1". */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  return tlv(tags.oid, Buffer.from([first * 40 + second, ...rest].flatMap(base128)));
}

/** Seven bits in each octet, the first ones marked as having one after them. */
function base128(value: number): number[] {
  const octets = [value % 0x80];
  for (let left = Math.floor(value / 0x80); left > 0; left = Math.floor(left / 0x80)) {
    octets.unshift(0x80 | (left % 0x80));
  }
  return octets;
}

/** YYYYMMDDHHMMSSZ: whole seconds, a fraction is cut off (RFC 5280 section 4.1.2.5.2). */
export const generalizedTime = (time: Date): Buffer => tlv(tags.generalizedTime, Buffer.from(digitsOf(time), "latin1"));

/** YYMMDDHHMMSSZ, for the years 1950 to 2049 only (RFC 5280 section 4.1.2.5.1). */
export function utcTime(time: Date): Buffer {
  const year = time.getUTCFullYear();
  if (year < 1950 || year > 2049) throw new RangeError(`UTCTime has no year ${year}`);
  return tlv(tags.utcTime, Buffer.from(digitsOf(time).slice(2), "latin1"));
}

/** Of the years 0 to 9999. */
const digitsOf = (time: Date) => `${time.toISOString().slice(0, 19).replace(/[-T:]/g, "")}Z`;

/** What is no DER, or another value than the one that has to stand there. */
export class MalformedDer extends Error {}

/** Reads values one after the other. What it gives out are views of the bytes it was given. */
export class DerReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** The next value's tag; undefined at the end. */
  get nextTag(): number | undefined {
    return this.#bytes[this.#at];
  }

  /** Whether the next value has this tag. */
  isNext(tag: number): boolean {
    return this.nextTag === tag;
  }

  /** The contents of the next value, which has this tag. Throws MalformedDer when it does not, as all below. */
  contents(tag: number): Buffer {
    const from = this.#enter(tag);
    return this.#bytes.subarray(from, this.#at);
  }

  /** The next value whole: with tag and length, whatever tag it is. */
  value(): Buffer {
    const start = this.#at;
    this.#enter(this.nextTag);
    return this.#bytes.subarray(start, this.#at);
  }

  /** Reads what is in the next value, which has this tag. */
  inside(tag: number): DerReader {
    return new DerReader(this.contents(tag));
  }

  /** The contents of an INTEGER: two's complement, in as few octets as it takes. */
  integer(): Buffer {
    const octets = this.contents(tags.integer);
    const [first = 0, second = 0] = octets;
    const isPadded = octets.length > 1 && ((first === 0 && second < 0x80) || (first === 0xff && second >= 0x80));
    if (octets.length === 0 || isPadded) throw new MalformedDer("an INTEGER is not in its shortest form");
    return octets;
  }

  boolean(): boolean {
    const octets = this.contents(tags.boolean);
    if (octets.length !== 1 || (octets[0] !== 0 && octets[0] !== 0xff)) throw new MalformedDer("no BOOLEAN");
    return octets[0] === 0xff;
  }

  /** Refuses whatever follows. */
  end(): void {
    if (!this.isAtEnd) throw new MalformedDer("there is more than there should be");
  }

  /** Steps over the next value; returns where its contents begin. They end where the reader then stands. */
  #enter(tag: number | undefined): number {
    const found = this.nextTag;
    if (found === undefined || found !== tag) throw new MalformedDer("another value is expected");
    if ((found & 0x1f) === 0x1f) throw new MalformedDer("tags of several octets are not read");
    const first = this.#bytes[this.#at + 1];
    if (first === undefined) throw new MalformedDer("a value without length");
    let from = this.#at + 2;
    let length = first;
    if (first >= 0x80) {
      const octets = first - 0x80;
      // No octets at all is an indefinite length, which DER does not have.
      if (octets === 0 || octets > 4 || octets > this.#bytes.length - from) throw new MalformedDer("no length");
      length = this.#bytes.readUIntBE(from, octets);
      const isMinimal = length >= 0x80 && (octets === 1 || length >= 0x100 ** (octets - 1));
      if (!isMinimal) throw new MalformedDer("a length is not in its shortest form");
      from += octets;
    }
    if (length > this.#bytes.length - from) throw new MalformedDer("a value goes past the end");
    this.#at = from + length;
    return from;
  }
}
