import { expect } from "chai";
import { readSettings } from "../../src/agent/settings.ts";
import { SettingError } from "../../src/client/program.ts";

const read = (settings: Record<string, string>) =>
  readSettings(Object.fromEntries(Object.entries(settings).map(([name, value]) => [`SERVICE_${name}`, value])));

describe("The settings of an agent", () => {
  it("are few when nothing is set", () => {
    const { serverUrls, roots, otherFileSystems, scanIntervalMs, logLevel, credentials } = read({ SERVER_URL: " " });

    expect({ serverUrls, roots, otherFileSystems, scanIntervalMs, logLevel, credentials }).to.deep.equal({
      serverUrls: [],
      roots: [],
      otherFileSystems: false,
      scanIntervalMs: 3_600_000,
      logLevel: "info",
      credentials: undefined,
    });
  });

  it("are read as they are meant", () => {
    const settings = read({
      SERVER_URL: "https://one.example.org/, http://[::1]:8080",
      AGENT_ROOTS: "/srv, /opt/*/conf",
      AGENT_OTHER_FILE_SYSTEMS: "TRUE",
      AGENT_SCAN_INTERVAL_SECONDS: "10",
      AGENT_STATE_DIR: "/srv/agent",
    });

    expect(settings.serverUrls).to.deep.equal(["https://one.example.org", "http://[::1]:8080"]);
    expect(settings.roots).to.deep.equal(["/srv", "/opt/*/conf"]);
    expect(settings).to.include({ otherFileSystems: true, scanIntervalMs: 10_000, stateFolder: "/srv/agent" });
  });

  const faults: [string, Record<string, string>][] = [
    ["SERVICE_SERVER_URL", { SERVER_URL: "example.org" }],
    ["SERVICE_SERVER_URL", { SERVER_URL: "https://example.org/holdfast" }],
    ["SERVICE_SERVER_URL", { SERVER_URL: "https://user:secret@example.org" }],
    ["SERVICE_SERVER_URL", { SERVER_URL: "," }],
    ["SERVICE_CA_FILE", { CA_FILE: "/nowhere/ca.pem" }],
    ["SERVICE_CLIENT_SECRET", { CLIENT_ID: "id" }],
    ["SERVICE_CLIENT_SECRET_FILE", { CLIENT_ID: "id", CLIENT_SECRET: "hunter2", CLIENT_SECRET_FILE: "/x" }],
    ["SERVICE_CLIENT_SECRET_FILE", { CLIENT_ID: "id", CLIENT_SECRET_FILE: "/nowhere/secret" }],
    ["SERVICE_ENROLLMENT_TOKEN_FILE", { ENROLLMENT_TOKEN: "hfa_x", ENROLLMENT_TOKEN_FILE: "/x" }],
    ["SERVICE_AGENT_STATE_DIR", { AGENT_STATE_DIR: "state" }],
    ["SERVICE_AGENT_ROOTS", { AGENT_ROOTS: "/srv,opt" }],
    ["SERVICE_AGENT_OTHER_FILE_SYSTEMS", { AGENT_OTHER_FILE_SYSTEMS: "yes" }],
    ["SERVICE_AGENT_SCAN_INTERVAL_SECONDS", { AGENT_SCAN_INTERVAL_SECONDS: "9" }],
    ["SERVICE_AGENT_SCAN_INTERVAL_SECONDS", { AGENT_SCAN_INTERVAL_SECONDS: "60.5" }],
    ["SERVICE_LOG_LEVEL", { LOG_LEVEL: "loud" }],
  ];
  for (const [named, settings] of faults) {
    it(`are refused by name: ${named} for ${JSON.stringify(settings)}`, () => {
      expect(() => read(settings)).to.throw(SettingError, named);
    });
  }

  it("are refused all at once, and without their values", () => {
    const bad = { SERVER_URL: "https://u:hunter2@example.org", AGENT_ROOTS: "hunter2", CLIENT_SECRET: "hunter2" };

    expect(() => read(bad))
      .to.throw(SettingError)
      .with.property("message")
      .that.matches(/SERVER_URL.*CLIENT_ID.*AGENT_ROOTS/)
      .and.does.not.include("hunter2");
  });
});
