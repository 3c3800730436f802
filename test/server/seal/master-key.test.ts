import { createSecretKey, randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect } from "chai";
import { ConfigError, readConfig } from "../../../src/server/config.ts";
import { SealBroken } from "../../../src/server/seal/cipher.ts";
import { LocalKey } from "../../../src/server/seal/key-wrapping.ts";
import { MasterKey, readMasterKey } from "../../../src/server/seal/master-key.ts";

const bytes = randomBytes(32);
const keyOf = (given: Buffer, setting = "given") => new LocalKey(setting, createSecretKey(given));

describe("The master key", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "holdfast-key-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const read = (settings: Record<string, string>, embedded = false) =>
    readMasterKey(readConfig({ SERVICE_DATA_DIR: folder, ...settings }), embedded);
  const fileWith = (text: string) => {
    const file = join(folder, "key");
    writeFileSync(file, text);
    return file;
  };

  const forms: [string, string][] = [
    ["base64", bytes.toString("base64")],
    ["base64 without padding", bytes.toString("base64").replace("=", "")],
    ["base64url", bytes.toString("base64url")],
    ["hex", bytes.toString("hex")],
    ["hex in capitals", bytes.toString("hex").toUpperCase()],
  ];
  for (const [form, text] of forms) {
    it(`may be given as ${form}, in the setting or in a file that ends with a newline`, async () => {
      const wrapped = await keyOf(bytes).wrap("place", Buffer.from("key"));

      const fromSetting = read({ SERVICE_MASTER_KEY: text });
      const fromFile = read({ SERVICE_MASTER_KEY_FILE: fileWith(`${text}\n`) });

      for (const { current } of [fromSetting, fromFile]) {
        expect((await current.unwrap("place", wrapped)).toString()).to.equal("key");
      }
    });
  }

  const bad: [string, string][] = [
    ["too short", randomBytes(31).toString("base64")],
    ["too long", randomBytes(33).toString("base64")],
    ["a passphrase", "correct horse battery staple, correct horse battery staple!"],
    ["hex with another character", `${bytes.toString("hex").slice(0, 63)}g`],
  ];
  for (const [why, text] of bad) {
    it(`is refused when it is ${why}, without being shown`, () => {
      expect(() => read({ SERVICE_MASTER_KEY: text }))
        .to.throw(ConfigError, "SERVICE_MASTER_KEY: must hold 32 bytes as base64 or hex")
        .with.property("message")
        .that.does.not.include(text);
      expect(() => read({ SERVICE_MASTER_KEY_FILE: fileWith(text) })).to.throw(
        ConfigError,
        "SERVICE_MASTER_KEY_FILE: ",
      );
    });
  }

  it("is made on the first start with embedded engines, for the owner only, and stays", async () => {
    const first = read({}, true);
    const second = read({}, true);
    const ofAnotherProgram = read({});

    const wrapped = await first.wrap("place", Buffer.from("key"));
    expect(first.generatedFile).to.equal(join(folder, "master.key"));
    for (const later of [second, ofAnotherProgram]) {
      expect((await later.unwrap("place", wrapped)).toString()).to.equal("key");
    }
    expect(statSync(join(folder, "master.key")).mode & 0o777).to.equal(0o600);
    expect(readdirSync(folder)).to.deep.equal(["master.key"]);
    expect(Buffer.from(readFileSync(join(folder, "master.key"), "utf8"), "base64")).to.have.length(32);
  });

  it("is not made when one is given", () => {
    const { generatedFile } = read({ SERVICE_MASTER_KEY: bytes.toString("hex") }, true);

    expect(generatedFile).to.equal(undefined);
    expect(existsSync(join(folder, "master.key"))).to.equal(false);
  });

  it("must be given for a database that is not embedded, where a generated one counts for nothing", () => {
    read({}, true);
    const ownDatabase = { SERVICE_DATABASE_URL: "postgresql://h/d", SERVICE_REDIS_URL: "redis://h" };

    expect(() => read(ownDatabase)).to.throw(ConfigError, /^SERVICE_MASTER_KEY is needed with SERVICE_DATABASE_URL/);
  });

  it("is made by no program but the server", () => {
    expect(() => read({})).to.throw(ConfigError, `SERVICE_MASTER_KEY is needed: there is no ${folder}/master.key`);
    expect(readdirSync(folder)).to.deep.equal([]);
  });

  it("is not made anew over a file that is damaged", () => {
    writeFileSync(join(folder, "master.key"), "damaged");

    expect(() => read({}, true)).to.throw(ConfigError, /master\.key must hold 32 bytes/);
    expect(readFileSync(join(folder, "master.key"), "utf8")).to.equal("damaged");
  });
});

describe("A master key and the one before", () => {
  const current = keyOf(randomBytes(32), "current");
  const previous = keyOf(randomBytes(32), "previous");
  const stranger = keyOf(randomBytes(32), "stranger");
  const place = "holdfast/v1|organization-key|o";
  const key = randomBytes(32);

  it("open what either has wrapped, and the newer one wraps", async () => {
    const both = new MasterKey(current, previous);

    expect(await both.unwrap(place, await previous.wrap(place, key))).to.deep.equal(key);
    expect(await both.unwrap(place, await current.wrap(place, key))).to.deep.equal(key);
    expect(await current.unwrap(place, await both.wrap(place, key))).to.deep.equal(key);
  });

  it("do not open what a third has wrapped, nor what belongs elsewhere, and say which they are", async () => {
    const both = new MasterKey(current, previous);
    const attempts = [
      both.unwrap(place, await stranger.wrap(place, key)),
      both.unwrap("elsewhere", await previous.wrap(place, key)),
      new MasterKey(current).unwrap(place, await previous.wrap(place, key)),
    ];

    for (const attempt of await Promise.allSettled(attempts)) {
      expect(attempt).to.have.property("reason").instanceOf(SealBroken);
    }
    expect(both.mismatch).to.equal("neither current nor previous is the key that this database was sealed with");
    expect(new MasterKey(current).mismatch).to.equal("current is not the key that this database was sealed with");
  });

  it("may each be a key, a file or a key of AWS KMS", () => {
    const text = bytes.toString("hex");
    const file = join(mkdtempSync(join(tmpdir(), "holdfast-key-")), "key");
    writeFileSync(file, text);
    const forms = { "": text, _FILE: file, _KMS_KEY_ID: "alias/holdfast" };

    for (const [now, ofNow] of Object.entries(forms)) {
      for (const [before, ofBefore] of Object.entries(forms)) {
        const settings = { [`SERVICE_MASTER_KEY${now}`]: ofNow, [`SERVICE_MASTER_KEY_PREVIOUS${before}`]: ofBefore };

        const { current, previous } = readMasterKey(readConfig(settings), false);

        expect([current.setting, previous?.setting]).to.deep.equal(Object.keys(settings));
      }
    }
    rmSync(dirname(file), { recursive: true });
  });
});
