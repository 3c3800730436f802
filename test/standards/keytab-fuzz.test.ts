import { expect } from "chai";
import { type Keytab, KeytabError, keyOf, parseKeytab } from "../../src/standards/keytab.ts";
import { randomFrom } from "../harness/random.ts";
import { keytabWriter } from "./keytab-files.ts";
import { keytabMutations } from "./keytab-mutations.ts";

const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
/** FUZZ_KEYTABS=1000000 looks longer, some minutes. */
const inputs = Number(process.env["FUZZ_KEYTABS"] ?? 20_000);

/** All that a refusal may say: of numbers, only places in the file and the limits of the format. */
const refusals = [
  "the file is empty",
  "the file has no entry",
  "the file was damaged by a conversion to text and back",
  "this is a certificate or its key, not a keytab",
  "this is a credential cache, not a keytab",
  "this is text, not a keytab: perhaps what klist printed, or base64 once too often",
  "a keytab begins with the bytes 05 02, or 05 01",
  "the (number of components|length of the (realm|component|key)) is (0|above 32767)",
  "the [a-z ]+ goes past the end of its record at byte (?<end>\\d+)",
  "the (record|hole) goes past the end of the file at byte (?<size>\\d+)",
  "the last bytes are too few for a record, and no padding",
];
const refusal = new RegExp(`^byte (?<at>\\d+): (${refusals.join("|")})$`);

function checkRefusal(error: unknown, bytes: Buffer): void {
  expect(error).to.be.instanceOf(KeytabError);
  const { message, offset } = error as KeytabError;
  const { at, end, size } = refusal.exec(message)?.groups ?? {};
  expect(at, message).to.equal(String(offset));
  expect(offset, message).to.be.within(0, Math.max(2, bytes.length));
  if (end !== undefined) expect(Number(end), message).to.be.within(offset, bytes.length);
  if (size !== undefined) expect(Number(size), message).to.equal(bytes.length);
}

function checkKeytab(keytab: Keytab, bytes: Buffer): void {
  const { entries, kvno, principal } = keytab;
  let from = 2;
  for (const entry of entries) {
    const { offset, length } = entry.key;
    // After the length of the record and the fields before the key.
    expect(offset - from).to.be.at.least(keytab.version === 1 ? 21 : 25);
    expect(length).to.be.within(1, 0x7fff);
    from = offset + length;
    expect(entry.kvno).to.be.within(0, 2 ** 32 - 1);
    expect(entry.enctype).to.be.within(-(2 ** 15), 2 ** 15 - 1);
    expect(entry.principal.startsWith(principal) && entry.principal.length === principal.length).to.equal(
      entry.principal === principal,
    );
    if (entry.principal === principal) expect(entry.kvno).to.be.at.most(kvno);
  }
  expect(from).to.be.at.most(bytes.length);
  checkRewritten(keytab, bytes);
}

/** Written anew, without holes and padding, the file says the same. */
function checkRewritten({ entries, ...keytab }: Keytab, bytes: Buffer): void {
  // A name that is shown with escapes is not known by its bytes.
  if (entries.some(({ principal }) => principal.includes("\\"))) return;
  const { file, entry: write } = keytabWriter(keytab);
  const records = entries.map((entry) => {
    const key = Buffer.from(keyOf(bytes, entry));
    return write({ ...entry, kvno8: entry.kvno % 256, key, tail: entry.kvno });
  });
  const again = parseKeytab(file(...records));
  const without = ({ key: { length }, ...entry }: Keytab["entries"][0]) => ({ ...entry, length });
  expect(JSON.stringify(again.entries.map(without))).to.equal(JSON.stringify(entries.map(without)));
}

describe(`A damaged keytab (FUZZ_SEED=${seed})`, () => {
  it("is read within its bounds, or refused without a word of what is in it", () => {
    const next = keytabMutations(randomFrom(seed));
    let refused = 0;

    for (let count = 0; count < inputs; count += 1) {
      const bytes = next();
      let keytab: Keytab | undefined;
      try {
        try {
          keytab = parseKeytab(bytes);
        } catch (error) {
          refused += 1;
          checkRefusal(error, bytes);
        }
        if (keytab !== undefined) checkKeytab(keytab, bytes);
      } catch (error) {
        throw new Error(`${(error as Error).message}: input ${count}, ${bytes.toString("base64")}`, { cause: error });
      }
    }

    console.log(`      ${inputs - refused} were read, ${refused} were refused`);
    expect(refused).to.be.within(inputs / 10, inputs - inputs / 10);
  }).timeout(60_000 + inputs);
});
