import { spawnSync } from "node:child_process";
import { endianness } from "node:os";
import { expect } from "chai";
import { enctypeName, enctypeStrength } from "../../src/standards/enctypes.ts";
import {
  type Keytab,
  type KeytabEntry,
  KeytabError,
  keyOf,
  maxKeytabBytes,
  maxKeytabEntries,
  parseKeytab,
} from "../../src/standards/keytab.ts";
import type { KeytabFormat } from "../../src/standards/keytab-entry.ts";
import { damaged, type EntryParts, formats, keytabWriter, readable, readableFile, version2 } from "./keytab-files.ts";

const nameOf = ({ version, byteOrder }: KeytabFormat) => `version ${version}, ${byteOrder}-endian`;
const writer = keytabWriter(version2);
/** 43 bytes: the record begins at byte 2, its content at byte 6. */
const sound = writer.file(writer.entry());

/** The message of the refusal, or how many entries there are. */
function outcome(bytes: Uint8Array): string | number {
  try {
    return parseKeytab(bytes).entries.length;
  } catch (error) {
    if (!(error instanceof KeytabError)) throw error;
    return error.message;
  }
}

/** The only entry of a file with such an entry. */
function entryOf(parts: EntryParts, format = version2): KeytabEntry {
  const written = keytabWriter(format);
  const [entry, ...more] = parseKeytab(written.file(written.entry(parts))).entries;
  expect(more).to.deep.equal([]);
  return entry;
}

/** An entry without its place in the file. */
const contentOf = ({ key: { length }, ...content }: KeytabEntry) => ({ ...content, keyLength: length });
const contentsOf = ({ entries }: Keytab) => entries.map(contentOf);
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

/** The lines of `klist -kteK`. */
function klistLines(bytes: Buffer): string[] {
  return parseKeytab(bytes).entries.map((entry) => {
    const { principal, kvno, enctype, timestamp } = entry;
    const [, year, month, day, time] = /^\d\d(\d\d)-(\d\d)-(\d\d)T(.{8})/.exec(isoTime(timestamp)) ?? [];
    const columns = [String(kvno | 0).padStart(4), `${month}/${day}/${year}`, time, principal];
    const opinion = enctypeStrength(enctype) === "strong" ? "" : "DEPRECATED:";
    const type = enctypeName(enctype).replace("etype-", "etype ");
    return `${columns.join(" ")} (${opinion}${type})  (0x${hex(keyOf(bytes, entry))})`;
  });
}

const isoTime = (seconds: number) => new Date(seconds * 1000).toISOString();

describe("A keytab", () => {
  for (const { name, bytes, description } of readable) {
    it(`is read as MIT reads it: ${name}`, () => {
      const keytab = parseKeytab(bytes);

      const entries = keytab.entries.map((entry) => ({
        principal: entry.principal,
        realm: entry.realm,
        components: entry.components,
        name_type: entry.nameType,
        kvno: entry.kvno,
        enctype: entry.enctype,
        timestamp: entry.timestamp,
        key_length: entry.key.length,
        key_hex: hex(keyOf(bytes, entry)),
      }));
      expect(entries.length).to.equal(description.entries.length);
      for (const [index, entry] of entries.entries()) expect(description.entries[index]).to.deep.include(entry);
      for (const { enctype, enctype_name } of description.entries) {
        if (enctype_name !== null) expect(enctypeName(enctype)).to.equal(enctype_name);
      }
      expect(`0x050${keytab.version} ${keytab.byteOrder}`).to.equal(
        `${description.file_version} ${description.byte_order}`,
      );
    });

    it(`is summed up by its first principal, its highest kvno and all its types: ${name}`, () => {
      const { principal, realm, kvno, encryptionTypes, entries, hash } = parseKeytab(bytes);

      const { summary, sha256 } = description;
      expect({ principal, realm, kvno, encryptionTypes, entryCount: entries.length, hash }).to.deep.equal({
        principal: summary.principal,
        realm: summary.realm,
        kvno: summary.kvno,
        encryptionTypes: summary.encryption_types,
        entryCount: summary.entry_count,
        hash: sha256,
      });
    });
  }

  it("has the lines that klist printed of it", () => {
    for (const { name, bytes, description } of readable) {
      if (description.klist_output === undefined) continue;
      expect(klistLines(bytes), name).to.deep.equal(description.klist_output.slice(3));
    }
  });

  it("has the lines that klist prints of it here", function () {
    const version = spawnSync("klist", ["-V"], { encoding: "utf8" });
    if (version.error !== undefined || !version.stdout.startsWith("Kerberos 5 version")) {
      console.log("      skipped: klist of MIT Kerberos is not installed");
      this.skip();
    }
    const order = endianness() === "LE" ? "little" : "big";
    // What is deprecated depends on the version of klist.
    const withoutOpinion = (line: string) => line.replace("(DEPRECATED:", "(");

    for (const { name, path, bytes, description } of readable) {
      if (description.file_version === "0x0501" && description.byte_order !== order) continue;
      const env = { PATH: process.env["PATH"], TZ: "UTC", LC_ALL: "C" };
      const { stdout } = spawnSync("klist", ["-kteK", path], { encoding: "utf8", env });
      const printed = stdout.trimEnd().split("\n").slice(3);
      expect(klistLines(bytes).map(withoutOpinion), name).to.deep.equal(printed.map(withoutOpinion));
    }
  });

  for (const format of formats) {
    it(`keeps all it says when it is written anew: ${nameOf(format)}`, () => {
      const rewriter = keytabWriter(format);
      for (const { name, bytes } of readable) {
        const { entries, ...summary } = parseKeytab(bytes);

        const written = rewriter.file(
          ...entries.map((entry) =>
            rewriter.entry({
              ...entry,
              kvno8: entry.kvno % 256,
              key: Buffer.from(keyOf(bytes, entry)),
              tail: entry.kvno,
            }),
          ),
        );

        const again = parseKeytab(written);
        const nameTypes = (entry: KeytabEntry) => (format.version === 1 ? null : (entry.nameType ?? 0));
        const expected = entries.map((entry) => ({ ...contentOf(entry), nameType: nameTypes(entry) }));
        expect(contentsOf(again), name).to.deep.equal(expected);
        expect(again, name).to.deep.include({ ...summary, ...format, hash: again.hash });
        for (const [index, entry] of again.entries.entries()) {
          expect(hex(keyOf(written, entry)), name).to.equal(hex(keyOf(bytes, entries[index] as KeytabEntry)));
        }
      }
    });

    it(`has the kvno of 32 bits where there is one that is not 0: ${nameOf(format)}`, () => {
      const { int } = keytabWriter(format);
      const cases = [
        ["none", 200, Buffer.alloc(0), 200],
        ["1 byte of padding", 7, Buffer.alloc(1, 0xff), 7],
        ["3 bytes of padding", 7, Buffer.alloc(3, 0xff), 7],
        ["0", 7, 0, 7],
        ["the same", 7, 7, 7],
        ["257, whose low byte is 1", 1, 257, 257],
        ["another", 3, 9, 9],
        ["the highest", 255, 2 ** 32 - 1, 2 ** 32 - 1],
        ["2^31", 0, 2 ** 31, 2 ** 31],
        ["with flags behind it, as Heimdal and Samba write", 5, Buffer.concat([int(300, 4), int(1, 4)]), 300],
        ["0 with flags behind it", 5, Buffer.concat([int(0, 4), int(1, 4)]), 5],
        ["with what is left of a longer entry", 5, Buffer.concat([int(6, 4), Buffer.alloc(41, 0xee)]), 6],
      ] as const;

      for (const [name, kvno8, tail, kvno] of cases) {
        expect(entryOf({ kvno8, tail }, format).kvno, name).to.equal(kvno);
      }
    });

    it(`has numbers of either sign where the format has them: ${nameOf(format)}`, () => {
      const entry = { nameType: -128, timestamp: 2 ** 32 - 1, enctype: -133, kvno8: 255 };

      const { nameType, timestamp, enctype, kvno } = entryOf(entry, format);

      const expected = [format.version === 1 ? null : -128, 2 ** 32 - 1, -133, 255];
      expect([nameType, timestamp, enctype, kvno]).to.deep.equal(expected);
    });

    it(`may have holes anywhere, and 1 to any number of zeros at its end: ${nameOf(format)}`, () => {
      const { hole, entry, file } = keytabWriter(format);
      const [a, b] = [entry({ components: ["a"] }), entry({ components: ["b"] })];
      const principals = (...records: Buffer[]) =>
        parseKeytab(file(...records)).entries.map(({ principal }) => principal);

      expect(principals(hole(1), a, hole(90), hole(4), b, hole(3))).to.deep.equal(["a@R", "b@R"]);
      for (const length of [1, 2, 3, 4, 5, 1024]) expect(principals(a, b, Buffer.alloc(length))).to.have.length(2);
    });

    it(`ends at a length of 0, whatever follows: ${nameOf(format)}`, () => {
      const { entry, file } = keytabWriter(format);

      expect(outcome(file(entry(), Buffer.alloc(4), Buffer.alloc(50, 0xee)))).to.equal(1);
      expect(outcome(file(entry(), Buffer.alloc(4), entry()))).to.equal(1);
    });
  }

  it("counts the kvno of its first principal, not that of others, and never its name type", () => {
    const keytab = parseKeytab(
      writer.file(
        writer.hole(10),
        writer.entry({ components: ["HTTP", "web"], nameType: 1, kvno8: 4, enctype: 23 }),
        writer.entry({ components: ["HTTP", "web"], nameType: 3, kvno8: 9, enctype: 18 }),
        writer.entry({ components: ["HTTP/web"], kvno8: 200, enctype: 999 }),
        writer.entry({ components: ["HTTP", "web"], realm: "r", kvno8: 201, enctype: 23 }),
        writer.entry({ components: ["HTTP", "web"], nameType: 0, kvno8: 8, enctype: 17 }),
      ),
    );

    const { principal, realm, kvno, encryptionTypes } = keytab;
    const types = ["arcfour-hmac", "aes256-cts-hmac-sha1-96", "etype-999", "aes128-cts-hmac-sha1-96"];
    expect([principal, realm, kvno]).to.deep.equal(["HTTP/web@R", "R", 9]);
    expect(encryptionTypes).to.deep.equal(types);
  });

  it("has its names as they are, and in principals as MIT escapes them", () => {
    const latin1 = (text: string) => Buffer.from(text, "latin1");
    const cases: readonly [string | Buffer, string, string?][] = [
      ["alice", "alice"],
      ["svc/batch", "svc\\/batch", "svc/batch"],
      ["a@b", "a\\@b", "a@b"],
      ["DOM\\alice", "DOM\\\\alice", "DOM\\alice"],
      ["a\nb\tc\bd", "a\\nb\\tc\\bd", "a\nb\tc\bd"],
      // No text in PostgreSQL has a NUL.
      ["a\0b", "a\\0b", "a\\0b"],
      ['"q" #1', '"q" #1'],
      ["jos\u00e9", "jos\u00e9"],
      ["jose\u0301", "jose\u0301"],
      ["\ufeffbom", "\ufeffbom"],
      ["\ufffd", "\ufffd"],
      ["\u{1f511}", "\u{1f511}"],
      [latin1("jos\xe9"), "jos\\xe9", "jos\\xe9"],
      [latin1("jos\xe9/\\"), "jos\\xe9\\/\\\\", "jos\\xe9/\\"],
      [latin1("\x80\xff"), "\\x80\\xff", "\\x80\\xff"],
      // A surrogate, an overlong slash and a cut sequence are no UTF-8.
      [latin1("\xed\xa0\x80"), "\\xed\\xa0\\x80", "\\xed\\xa0\\x80"],
      [latin1("\xc0\xaf"), "\\xc0\\xaf", "\\xc0\\xaf"],
      [latin1("\xe2\x82"), "\\xe2\\x82", "\\xe2\\x82"],
    ];

    for (const [written, escaped, plain = escaped] of cases) {
      const { principal, realm, components } = entryOf({ realm: written, components: ["a", written] });
      expect({ principal, realm, components }).to.deep.equal({
        principal: `a/${escaped}@${escaped}`,
        realm: plain,
        components: ["a", plain],
      });
    }
  });

  it("has another principal for every other name", () => {
    const names = [["a", "b"], ["a/b"], ["a\\/b"], ["a\\", "b"], ["a\\xe9"], [Buffer.from("a\xe9", "latin1")]];
    const more = [["a\u00e9"], ["a\\0"], ["a\0"], ["a@R"], ["a\\@R"], ["a"]];
    const realms = ["R", "R@R", "R/b"];

    const principals = realms.flatMap((realm) =>
      [...names, ...more].map((components) => entryOf({ realm, components }).principal),
    );

    expect(new Set(principals).size).to.equal(36);
  });

  it("is not judged by the length of its keys", () => {
    expect(entryOf({ enctype: 18, key: Buffer.alloc(1) }).key).to.deep.equal({ offset: 27, length: 1 });
    expect(entryOf({ enctype: 18, key: Buffer.alloc(0x7fff) }).key.length).to.equal(0x7fff);
  });

  it("is the same wherever its bytes are, and is left as it was", () => {
    for (const { name, bytes } of readable) {
      const around = Buffer.concat([Buffer.alloc(7, 0xff), bytes, bytes]);
      const within = new Uint8Array(around.buffer, around.byteOffset + 7, bytes.length);

      expect(parseKeytab(within), name).to.deep.equal(parseKeytab(bytes));
      expect(around.subarray(7, 7 + bytes.length).equals(bytes), name).to.equal(true);
    }
  });

  it("holds no key, only where it is", () => {
    for (const { name, bytes, description } of readable) {
      const shown = JSON.stringify(parseKeytab(bytes));
      for (const { key_hex } of description.entries) {
        expect(shown, name).not.to.include(key_hex.slice(0, 16));
        expect(shown, name).not.to.include(Buffer.from(key_hex, "hex").toString("base64").slice(0, 12));
      }
    }
  });

  it("may have 10,000 entries and 1 MiB, and no more", () => {
    const entries = (count: number) => writer.file(...Array.from({ length: count }, () => writer.entry()));
    const filled = (length: number) => writer.file(writer.entry(), writer.hole(length - sound.length - 4));

    expect(outcome(entries(maxKeytabEntries))).to.equal(10_000);
    expect(outcome(entries(maxKeytabEntries + 1))).to.equal(
      "byte 410006: a keytab of more than 10000 entries is not read",
    );
    expect(outcome(filled(maxKeytabBytes))).to.equal(1);
    expect(outcome(filled(maxKeytabBytes + 1))).to.equal(
      "byte 1048576: a keytab of more than 1048576 bytes is not read",
    );
    expect(outcome(Buffer.alloc(10_000_000))).to.equal("byte 1048576: a keytab of more than 1048576 bytes is not read");
  });
});

describe("A version 1 file", () => {
  const writer = keytabWriter({ version: 1, byteOrder: "little" });
  const { record, hole, entry, file } = writer;
  const content = writer.content({ tail: 300 });

  it("may claim up to 4 bytes after its end, as MIT writes it", () => {
    for (const missing of [1, 2, 3, 4]) {
      const { entries } = parseKeytab(file(entry(), record(content, content.length + missing)));
      expect(entries.map(({ kvno }) => kvno)).to.deep.equal([1, 300]);
      expect(outcome(file(entry(), hole(9), record(Buffer.alloc(1), -1 - missing)))).to.equal(1);
    }

    expect(outcome(file(entry(), record(content, content.length + 5)))).to.equal(
      "byte 39: the record goes past the end of the file at byte 80",
    );
    expect(outcome(file(entry(), record(Buffer.alloc(1), -6)))).to.equal(
      "byte 39: the hole goes past the end of the file at byte 44",
    );
  });

  it("must have all fields of an entry before its end", () => {
    const whole = writer.content();

    expect(outcome(file(record(whole.subarray(0, -1), whole.length)))).to.equal(
      "byte 21: the key goes past the end of its record at byte 38",
    );
    expect(outcome(file(record(whole.subarray(0, -4), whole.length)))).to.equal(
      "byte 21: the key goes past the end of its record at byte 35",
    );
  });

  it("has no kvno of 32 bits that begins before its end and goes on after it", () => {
    const cut = Buffer.concat([writer.content({ kvno8: 9 }), Buffer.alloc(2, 0xee)]);

    expect(parseKeytab(file(record(cut, cut.length + 2))).kvno).to.equal(9);
  });

  it("counts the realm among its components", () => {
    expect(outcome(file(entry({ count: 1 })))).to.equal("byte 6: the number of components is 0");
    expect(outcome(file(entry({ count: 0 })))).to.equal("byte 6: the number of components is 0");
  });

  it("is refused with the fault in the byte order that leads further", () => {
    for (const format of formats.slice(1)) {
      const { entry, file } = keytabWriter(format);
      expect(outcome(file(entry(), entry({ realm: "" }))), nameOf(format)).to.equal(
        "byte 45: the length of the realm is 0",
      );
    }
  });
});

describe("A file that is no sound keytab", () => {
  /** Where careful readers may differ, what this one does. */
  const decided: Readonly<Record<string, string | number>> = {
    "component-length-0": "byte 27: the length of the component is 0",
    "good-then-ff": 1,
    "key-length-0": "byte 53: the length of the key is 0",
    "key-wrong-size-for-enctype": 1,
    "negative-size-past-end": "byte 94: the hole goes past the end of the file at byte 114",
    "trailing-3-nonzero": "byte 94: the last bytes are too few for a record, and no padding",
    "truncated-record-length": 1,
  };

  for (const { name, bytes, description } of damaged) {
    if (description.recommended === "either") {
      it(`has a decided outcome: ${name}, ${description.reason}`, () => {
        expect(outcome(bytes)).to.equal(decided[name]);
      });
    } else {
      it(`is refused: ${name}, ${description.reason}`, () => {
        expect(outcome(bytes)).to.match(/^byte \d+: /);
      });
    }
  }

  it("is refused by what it seems to be, where it is no keytab at all", () => {
    const certificate = "byte 0: this is a certificate or its key, not a keytab";
    const text = "byte 0: this is text, not a keytab: perhaps what klist printed, or base64 once too often";
    const start = "a keytab begins with the bytes 05 02, or 05 01";
    const cases: readonly [string, string][] = [
      ["", "byte 0: the file is empty"],
      ["-----BEGIN CERTIFICATE-----\nMIIB", certificate],
      ["\x30\x82\x01\x0a\x02\x82", certificate],
      ["\x30\x82", certificate],
      ["\x30\x81\x01", `byte 0: ${start}`],
      ["\x05\x03\x00\x00", "byte 1: this is a credential cache, not a keytab"],
      ["\x05\x04\x00\x0c", "byte 1: this is a credential cache, not a keytab"],
      ["BQIAAABJ\r\nAAIA\n", text],
      ["Keytab name:\tFILE:a ~", text],
      ["text, jos\xe9", `byte 0: ${start}`],
      ["text\x7f", `byte 0: ${start}`],
      ["text\0", `byte 0: ${start}`],
      ["\x05", `byte 1: ${start}`],
      ["\x05\x00", `byte 1: ${start}`],
      ["\x05\x05", `byte 1: ${start}`],
      ["\x05text", `byte 1: ${start}`],
      [" \x05\x02", `byte 0: ${start}`],
      ["\x04\x02", `byte 0: ${start}`],
      ["\x02\x05", `byte 0: ${start}`],
      ["\x05\x02", "byte 2: the file has no entry"],
      ["\x05\x01", "byte 2: the file has no entry"],
      ["\x05\x02\0\0", "byte 2: the file has no entry"],
      ["\x05\x02\0\0\0\0\0\0", "byte 2: the file has no entry"],
      ["\x05\x02\xff\xff\xff\xfe..", "byte 2: the file has no entry"],
    ];

    for (const [bytes, message] of cases) expect(outcome(Buffer.from(bytes, "latin1")), bytes).to.equal(message);
  });

  it("is refused for the conversion to text that it went through, though not for a name that has its sign", () => {
    const converted = Buffer.from(readableFile("mit-host-all-aes").bytes.toString());
    const named = writer.file(writer.entry({ realm: "\ufffd" }));

    expect(outcome(converted)).to.equal(
      `byte ${converted.indexOf("\ufffd")}: the file was damaged by a conversion to text and back`,
    );
    expect(outcome(named)).to.equal(1);
  });

  it("is refused at the field that its record cuts, whatever follows the record", () => {
    const content = writer.content();
    /** From which byte of the content on; what is missing, and where it begins. */
    const fields: readonly [number, string, number][] = [
      [0, "number of components", 6],
      [2, "length of the realm", 8],
      [4, "realm", 8],
      [5, "length of the component", 11],
      [7, "component", 11],
      [8, "name type", 14],
      [12, "timestamp", 18],
      [16, "kvno", 22],
      [17, "enctype", 23],
      [19, "length of the key", 25],
      [21, "key", 25],
    ];

    for (let size = 1; size < content.length; size += 1) {
      const [, field, at] = fields.findLast(([from]) => from <= size) as (typeof fields)[0];
      const message = `byte ${at}: the ${field} goes past the end of its record at byte ${6 + size}`;
      const cut = writer.record(content.subarray(0, size));
      expect(outcome(writer.file(cut)), `${size} bytes`).to.equal(message);
      expect(outcome(writer.file(cut, writer.entry())), `${size} bytes, then an entry`).to.equal(message);
      expect(outcome(writer.file(writer.record(content, size))), `${size} bytes claimed`).to.equal(message);
    }
    expect(outcome(writer.file(writer.record(content)))).to.equal(1);
  });

  it("is refused for lengths and counts of 0, and for those that Kerberos libraries take for negative", () => {
    const long = (length: number) => Buffer.alloc(length, "a");
    const cases: readonly [EntryParts, string | number][] = [
      [{ count: 0 }, "byte 6: the number of components is 0"],
      [{ realm: "" }, "byte 8: the length of the realm is 0"],
      [{ components: [""] }, "byte 11: the length of the component is 0"],
      [{ components: ["a", ""] }, "byte 14: the length of the component is 0"],
      [{ key: Buffer.alloc(0) }, "byte 25: the length of the key is 0"],
      [{ realm: long(0x7fff) }, 1],
      [{ components: [long(0x7fff)] }, 1],
      [{ components: Array.from({ length: 0x7fff }, () => "a") }, 1],
      [{ count: 0x8000 }, "byte 6: the number of components is above 32767"],
      [{ count: 0xffff }, "byte 6: the number of components is above 32767"],
      [{ realm: long(0x8000) }, "byte 8: the length of the realm is above 32767"],
      [{ components: [long(0xffff)] }, "byte 11: the length of the component is above 32767"],
      [{ key: long(0x8000) }, "byte 25: the length of the key is above 32767"],
    ];

    for (const [parts, expected] of cases) expect(outcome(writer.file(writer.entry(parts)))).to.equal(expected);
  });

  it("is refused for a record or hole that goes past its end, however far", () => {
    const content = writer.content();
    const past = (what: string, at: number, end: number) =>
      `byte ${at}: the ${what} goes past the end of the file at byte ${end}`;

    for (const size of [content.length + 1, content.length + 4, 1000, 2 ** 31 - 1]) {
      expect(outcome(writer.file(writer.record(content, size))), String(size)).to.equal(past("record", 2, 43));
    }
    for (const size of [-(content.length + 1), -1000, -(2 ** 31)]) {
      expect(outcome(writer.file(writer.record(content, size))), String(size)).to.equal(past("hole", 2, 43));
    }
    expect(outcome(Buffer.concat([sound, writer.record(Buffer.alloc(0), -1)]))).to.equal(past("hole", 43, 47));
    expect(outcome(Buffer.concat([sound, sound]))).to.equal(past("record", 43, 86));
  });

  it("is refused for 1 to 3 last bytes that are not zero", () => {
    for (const last of [[1], [0, 1], [1, 0, 0], [0, 0, 1]]) {
      expect(outcome(Buffer.concat([sound, Buffer.from(last)])), last.join(" ")).to.equal(
        "byte 43: the last bytes are too few for a record, and no padding",
      );
    }
  });
});

describe("A keytab cut anywhere", () => {
  const names = ["mit-http-aes-camellia", "java-keytab-api", "kadmin-hole-middle", "heimdal-aes", "v1-le-two-entries"];
  names.push("kadmin-hole-reused-smaller", "v1-be-two-entries", "v1-le-exact", "hand-no-extension", "mit-utf8");

  for (const name of names) {
    it(`is refused, or has the entries before the cut where that is between records: ${name}`, () => {
      const { bytes } = readableFile(name);
      const keytab = parseKeytab(bytes);
      const { entries, version } = keytab;
      const ends = recordEnds(bytes, keytab);

      for (let length = 0; length < bytes.length; length += 1) {
        const cut = bytes.subarray(0, length);
        const end = ends.findLast(({ end }) => end <= length) ?? { end: 2, entries: 0 };
        const isPadding = length - end.end < 4 && cut.subarray(end.end).every((byte) => byte === 0);
        // Of a record of version 1 the last 4 bytes may be missing; here these are never a part of an entry.
        const early = version === 1 ? ends.find(({ end, slack }) => end > length && end - slack <= length) : undefined;
        const count = early?.entries ?? (isPadding ? end.entries : 0);
        if (count === 0) expect(outcome(cut), `${length} bytes`).to.be.a("string");
        else expect(parseKeytab(cut).entries, `${length} bytes`).to.deep.equal(entries.slice(0, count));
      }
    });
  }

  /** Where each record ends, how many entries there are until then, and how many of its last 4 bytes are no entry. */
  function recordEnds(bytes: Buffer, { entries, byteOrder }: Keytab) {
    const ends: { end: number; entries: number; slack: number }[] = [];
    for (let at = 2, count = 0; at + 4 <= bytes.length; ) {
      const size = byteOrder === "little" ? bytes.readInt32LE(at) : bytes.readInt32BE(at);
      const end = at + 4 + Math.abs(size);
      if (size > 0) count += 1;
      const key = entries[count - 1]?.key ?? { offset: 0, length: 0 };
      const used = size > 0 ? key.offset + key.length : at + 4;
      // The kvno of 32 bits, where it is one.
      const kvno32 = end - used >= 4 ? 4 : 0;
      ends.push({ end, entries: count, slack: Math.min(4, end - used - kvno32) });
      at = end;
    }
    return ends;
  }
});
