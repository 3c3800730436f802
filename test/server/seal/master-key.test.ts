import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { ConfigError, readConfig } from "../../../src/server/config.ts";
import { readMasterKey } from "../../../src/server/seal/master-key.ts";

const bytes = randomBytes(32);

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
    it(`may be given as ${form}, in the setting or in a file that ends with a newline`, () => {
      const fromSetting = read({ SERVICE_MASTER_KEY: text });
      const fromFile = read({ SERVICE_MASTER_KEY_FILE: fileWith(`${text}\n`) });

      expect(fromSetting.key.export()).to.deep.equal(bytes);
      expect(fromFile.key.export()).to.deep.equal(bytes);
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

  it("is made on the first start with embedded engines, for the owner only, and stays", () => {
    const first = read({}, true);
    const second = read({}, true);

    expect(first.generatedFile).to.equal(join(folder, "master.key"));
    expect(second.key.equals(first.key)).to.equal(true);
    expect(statSync(join(folder, "master.key")).mode & 0o777).to.equal(0o600);
    expect(readdirSync(folder)).to.deep.equal(["master.key"]);
    expect(Buffer.from(readFileSync(join(folder, "master.key"), "utf8"), "base64")).to.have.length(32);
  });

  it("is not made when one is given", () => {
    const { generatedFile } = read({ SERVICE_MASTER_KEY: bytes.toString("hex") }, true);

    expect(generatedFile).to.equal(undefined);
    expect(existsSync(join(folder, "master.key"))).to.equal(false);
  });

  it("must be given for a database that is not embedded", () => {
    expect(() => read({}, false)).to.throw(ConfigError, /^SERVICE_MASTER_KEY is needed with SERVICE_DATABASE_URL/);
  });

  it("is not made anew over a file that is damaged", () => {
    writeFileSync(join(folder, "master.key"), "damaged");

    expect(() => read({}, true)).to.throw(ConfigError, /master\.key must hold 32 bytes/);
    expect(readFileSync(join(folder, "master.key"), "utf8")).to.equal("damaged");
  });
});
