import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { ExposedFile } from "../../src/client/private-file.ts";
import { SettingError } from "../../src/client/program.ts";
import { readSettings } from "../../src/gateway/settings.ts";

const fewest = {
  SERVER_URL: "https://holdfast.example.org",
  CLIENT_ID: "id",
  CLIENT_SECRET: "hunter2",
  GATEWAY_ENVIRONMENT: "production",
  GATEWAY_ROLE: "primary",
};

const read = (settings: Record<string, string>) =>
  readSettings(
    Object.fromEntries(Object.entries({ ...fewest, ...settings }).map(([name, value]) => [`SERVICE_${name}`, value])),
  );

describe("The settings of a gateway", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "holdfast-settings-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const write = (content: unknown, mode = 0o644) => {
    const path = join(folder, "commands.json");
    writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
    chmodSync(path, mode);
    return path;
  };

  it("are few", () => {
    const { credentials, allowedNetworks, commands, ...rest } = read({});

    expect(rest).to.deep.equal({
      serverUrls: ["https://holdfast.example.org"],
      certificateAuthorities: undefined,
      logLevel: "info",
      name: hostname(),
      environment: "production",
      role: "primary",
      region: "",
      identityClientId: "",
      concurrency: 4,
      probes: { host: "127.0.0.1", port: 8082 },
    });
    expect([credentials.clientId, credentials.clientSecret()]).to.deep.equal(["id", "hunter2"]);
    expect(commands.size).to.equal(0);
    expect(allowedNetworks.check("10.0.0.1")).to.equal(false);
  });

  it("are read as they are meant", () => {
    const path = write({
      "rotate-app": { argv: ["/bin/true", "--x"], environment: { A: "b" } },
      other: { argv: ["/x"] },
    });

    const { commands, allowedNetworks, ...settings } = read({
      GATEWAY_ROLE: "dr-standby",
      GATEWAY_NAME: "gw-eu-1",
      GATEWAY_REGION: "eu-west-1",
      GATEWAY_MANAGED_IDENTITY_CLIENT_ID: "cloud",
      GATEWAY_CONCURRENCY: "64",
      GATEWAY_COMMANDS_FILE: path,
      GATEWAY_HOST: "::1",
      GATEWAY_PORT: "0",
      OUTBOUND_ALLOWED_CIDRS: "10.0.0.0/8, fd00::/8",
    });

    expect(settings).to.include({
      role: "dr-standby",
      name: "gw-eu-1",
      region: "eu-west-1",
      identityClientId: "cloud",
      concurrency: 64,
    });
    expect(settings.probes).to.deep.equal({ host: "::1", port: 0 });
    expect(commands.get("rotate-app")).to.deep.equal({ argv: ["/bin/true", "--x"], environment: { A: "b" } });
    expect(commands.get("other")).to.deep.equal({ argv: ["/x"], environment: {} });
    expect(allowedNetworks.check("10.1.2.3")).to.equal(true);
  });

  it("may leave out the listener", () => {
    expect(read({ GATEWAY_PORT: "off" }).probes).to.equal(undefined);
  });

  it("may hold the client secret in a file, which is read anew with each login", () => {
    const path = write("first\n", 0o600);
    const { credentials } = read({ CLIENT_SECRET: "", CLIENT_SECRET_FILE: path });
    const first = credentials.clientSecret();

    writeFileSync(path, "second");

    expect([first, credentials.clientSecret()]).to.deep.equal(["first", "second"]);
    rmSync(path);
    expect(() => credentials.clientSecret()).to.throw("CLIENT_SECRET_FILE");
  });

  const faults: [string, Record<string, string>][] = [
    ["SERVICE_SERVER_URL", { SERVER_URL: "" }],
    ["SERVICE_CLIENT_ID", { CLIENT_ID: "" }],
    ["SERVICE_CLIENT_SECRET", { CLIENT_SECRET: "" }],
    ["SERVICE_GATEWAY_ENVIRONMENT", { GATEWAY_ENVIRONMENT: "" }],
    ["SERVICE_GATEWAY_ENVIRONMENT", { GATEWAY_ENVIRONMENT: "e".repeat(51) }],
    ["SERVICE_GATEWAY_ROLE", { GATEWAY_ROLE: "" }],
    ["SERVICE_GATEWAY_ROLE", { GATEWAY_ROLE: "standby" }],
    ["SERVICE_GATEWAY_NAME", { GATEWAY_NAME: "n".repeat(256) }],
    ["SERVICE_GATEWAY_CONCURRENCY", { GATEWAY_CONCURRENCY: "0" }],
    ["SERVICE_GATEWAY_CONCURRENCY", { GATEWAY_CONCURRENCY: "65" }],
    ["SERVICE_GATEWAY_PORT", { GATEWAY_PORT: "65536" }],
    ["SERVICE_GATEWAY_PORT", { GATEWAY_PORT: "none" }],
    ["SERVICE_OUTBOUND_ALLOWED_CIDRS", { OUTBOUND_ALLOWED_CIDRS: "10.0.0.0/33" }],
    ["SERVICE_GATEWAY_COMMANDS_FILE", { GATEWAY_COMMANDS_FILE: "/nowhere/commands.json" }],
  ];
  for (const [named, settings] of faults) {
    it(`are refused by name: ${named} for ${JSON.stringify(settings)}`, () => {
      expect(() => read(settings)).to.throw(SettingError, named);
    });
  }

  it("take an environment of 50 characters, however many bytes they are", () => {
    expect(read({ GATEWAY_ENVIRONMENT: "🔑".repeat(50) }).environment).to.equal("🔑".repeat(50));
  });

  it("are refused all at once, and without their values", () => {
    const bad = {
      SERVER_URL: "hunter2",
      GATEWAY_ROLE: "hunter2",
      GATEWAY_PORT: "hunter2",
      OUTBOUND_ALLOWED_CIDRS: "hunter2",
    };

    expect(() => read(bad))
      .to.throw(SettingError)
      .with.property("message")
      .that.matches(/SERVER_URL.*GATEWAY_ROLE.*OUTBOUND_ALLOWED_CIDRS.*GATEWAY_PORT/)
      .and.does.not.include("hunter2");
  });

  const badCommands: [string, unknown, RegExp][] = [
    ["is not JSON", "{", /is not JSON/],
    ["holds no commands", [], /COMMANDS_FILE/],
    ["names a command that no task can name", { "Rotate App": { argv: ["/bin/true"] } }, /Rotate App/],
    ["has a command without a program", { a: { argv: [] } }, /a\.argv/],
    ["has a command that would be looked for", { a: { argv: ["true"] } }, /a\.argv\.0: must be an absolute path/],
    ["has a shell line", { a: { argv: "/bin/true --x" } }, /a\.argv/],
    ["has a setting that nobody knows", { a: { argv: ["/bin/true"], shell: true } }, /shell/],
    ["has a variable that cannot be one", { a: { argv: ["/bin/true"], environment: { "A=B": "c" } } }, /environment/],
  ];
  for (const [what, content, told] of badCommands) {
    it(`are refused when the file of commands ${what}`, () => {
      const path = write(content);

      expect(() => read({ GATEWAY_COMMANDS_FILE: path })).to.throw(SettingError, told);
    });
  }

  for (const mode of [0o666, 0o664, 0o646]) {
    it(`are refused when others can change the file of commands (${mode.toString(8)})`, () => {
      const path = write({}, mode);

      expect(() => read({ GATEWAY_COMMANDS_FILE: path })).to.throw(ExposedFile, "can be changed by other users");
    });
  }

  it("are refused when others can replace the file of commands", () => {
    const open = join(folder, "open");
    mkdirSync(open);
    writeFileSync(join(open, "commands.json"), "{}");
    chmodSync(open, 0o777);

    expect(() => read({ GATEWAY_COMMANDS_FILE: join(open, "commands.json") })).to.throw(ExposedFile, open);
  });
});
