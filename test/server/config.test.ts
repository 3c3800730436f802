import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { ConfigError, readConfig, readTlsFiles } from "../../src/server/config.ts";

const read = (settings: Record<string, string>) =>
  readConfig(Object.fromEntries(Object.entries(settings).map(([name, value]) => [`SERVICE_${name}`, value])));

const engines = { DATABASE_URL: "postgresql://u:p@h/d", REDIS_URL: "redis://h:6379" };

describe("The settings", () => {
  it("have the documented defaults", () => {
    const { TRUSTED_PROXIES, OUTBOUND_ALLOWED_CIDRS, ...config } = read({});

    expect(config).to.deep.equal({
      HOST: "127.0.0.1",
      PORT: 8080,
      OCSP_PORT: 8081,
      DATA_DIR: ".holdfast",
      KEYTAB_ENABLED: false,
      KEYTAB_EXPIRING_DAYS: 30,
      HEARTBEAT_TIMEOUT_SECONDS: 120,
      FAILURE_THRESHOLD: 3,
      TASK_TIMEOUT_SECONDS: 30,
      GATEWAY_VERIFY_INTERVAL_SECONDS: 3600,
      ACCESS_TOKEN_TTL_SECONDS: 3600,
      RATE_LIMIT_AUTH: 10,
      RATE_LIMIT_API: 100,
      RATE_LIMIT_OCSP: 1000,
      RATE_LIMIT_AGENT: 600,
      LOG_LEVEL: "info",
      DATABASE_POOL_SIZE: 16,
      BOOTSTRAP_ADMIN_USERNAME: "admin",
    });
    expect(TRUSTED_PROXIES.rules).to.deep.equal([]);
    expect(OUTBOUND_ALLOWED_CIDRS.rules).to.deep.equal([]);
  });

  const bad: [string, Record<string, string>, string][] = [
    ["a port that is none", { PORT: "http" }, "SERVICE_PORT: "],
    ["a port beyond the last", { PORT: "65536" }, "SERVICE_PORT: "],
    ["a negative port", { OCSP_PORT: "-1" }, "SERVICE_OCSP_PORT: "],
    ["a heartbeat timeout of none", { HEARTBEAT_TIMEOUT_SECONDS: "0" }, "SERVICE_HEARTBEAT_TIMEOUT_SECONDS: "],
    ["no failures that make a failure", { FAILURE_THRESHOLD: "0" }, "SERVICE_FAILURE_THRESHOLD: "],
    ["half a port", { PORT: "80.5" }, "SERVICE_PORT: "],
    [
      "a database of another kind",
      { ...engines, DATABASE_URL: "mysql://h/d" },
      "SERVICE_DATABASE_URL: must be a postgresql:// URL",
    ],
    [
      "a Redis of another kind",
      { ...engines, REDIS_URL: "http://h" },
      "SERVICE_REDIS_URL: must be redis:// or rediss:// URLs",
    ],
    ["one bad node among several", { ...engines, REDIS_URL: "redis://a,b" }, "SERVICE_REDIS_URL: "],
    [
      "a database without Redis",
      { DATABASE_URL: engines.DATABASE_URL },
      "SERVICE_DATABASE_URL and SERVICE_REDIS_URL go together",
    ],
    [
      "Redis without a database",
      { REDIS_URL: engines.REDIS_URL },
      "SERVICE_DATABASE_URL and SERVICE_REDIS_URL go together",
    ],
    [
      "a certificate without its key",
      { TLS_CERT_FILE: "/c" },
      "SERVICE_TLS_CERT_FILE and SERVICE_TLS_KEY_FILE go together",
    ],
    [
      "a key without its certificate",
      { TLS_KEY_FILE: "/k" },
      "SERVICE_TLS_CERT_FILE and SERVICE_TLS_KEY_FILE go together",
    ],
    [
      "two master keys",
      { MASTER_KEY: "a", MASTER_KEY_FILE: "/k" },
      "SERVICE_MASTER_KEY and SERVICE_MASTER_KEY_FILE exclude each other",
    ],
    [
      "a master key in two places",
      { MASTER_KEY_FILE: "/k", MASTER_KEY_KMS_KEY_ID: "alias/k" },
      "SERVICE_MASTER_KEY_FILE and SERVICE_MASTER_KEY_KMS_KEY_ID exclude each other",
    ],
    [
      "two previous master keys",
      { MASTER_KEY: "a", MASTER_KEY_PREVIOUS: "b", MASTER_KEY_PREVIOUS_FILE: "/k" },
      "SERVICE_MASTER_KEY_PREVIOUS and SERVICE_MASTER_KEY_PREVIOUS_FILE exclude each other",
    ],
    [
      "a previous master key that nothing replaces",
      { MASTER_KEY_PREVIOUS_FILE: "/k" },
      "SERVICE_MASTER_KEY_PREVIOUS_FILE goes with a master key that replaces it",
    ],
    [
      "a key management service that is no URL",
      { MASTER_KEY_KMS_ENDPOINT: "localhost:4566" },
      "SERVICE_MASTER_KEY_KMS_ENDPOINT: ",
    ],
    ["a URL without a scheme", { PUBLIC_URL: "secrets.example" }, "SERVICE_PUBLIC_URL: "],
    ["a URL of another scheme", { OCSP_URL: "ftp://ocsp.example" }, "SERVICE_OCSP_URL: "],
    [
      "a proxy that is a name",
      { TRUSTED_PROXIES: "10.0.0.0/8, proxy" },
      "SERVICE_TRUSTED_PROXIES: proxy is neither an address nor a network (CIDR)",
    ],
    [
      "a network that is too small",
      { TRUSTED_PROXIES: "10.0.0.0/33" },
      "SERVICE_TRUSTED_PROXIES: 10.0.0.0/33 is neither",
    ],
    [
      "a network to send to that is a name",
      { OUTBOUND_ALLOWED_CIDRS: "db.internal" },
      "SERVICE_OUTBOUND_ALLOWED_CIDRS: db.internal is neither an address nor a network (CIDR)",
    ],
    ["a token that lives no time", { ACCESS_TOKEN_TTL_SECONDS: "0" }, "SERVICE_ACCESS_TOKEN_TTL_SECONDS: "],
    ["a limit that is not a number", { RATE_LIMIT_API: "many" }, "SERVICE_RATE_LIMIT_API: "],
    ["keytabs that expire soon on no day", { KEYTAB_EXPIRING_DAYS: "0" }, "SERVICE_KEYTAB_EXPIRING_DAYS: "],
    ["keytabs that expire soon in eleven years", { KEYTAB_EXPIRING_DAYS: "3651" }, "SERVICE_KEYTAB_EXPIRING_DAYS: "],
    ["half a day", { KEYTAB_EXPIRING_DAYS: "1.5" }, "SERVICE_KEYTAB_EXPIRING_DAYS: "],
    ["an end of the license that is no time", { LICENSE_EXPIRES_AT: "tomorrow" }, "SERVICE_LICENSE_EXPIRES_AT: "],
    ["a log level that there is not", { LOG_LEVEL: "loud" }, "SERVICE_LOG_LEVEL: "],
    ["a pool of one connection", { DATABASE_POOL_SIZE: "1" }, "SERVICE_DATABASE_POOL_SIZE: "],
    [
      "a short client secret",
      { BOOTSTRAP_CLIENT_SECRET: "hunter2" },
      "SERVICE_BOOTSTRAP_CLIENT_SECRET: must have at least 16 characters",
    ],
    ["a project id that is none", { BOOTSTRAP_PROJECT_ID: "default" }, "SERVICE_BOOTSTRAP_PROJECT_ID: "],
  ];
  for (const [why, settings, line] of bad) {
    it(`are refused in one line that names the variable: ${why}`, () => {
      expect(() => read(settings))
        .to.throw(ConfigError, line)
        .with.property("message")
        .that.does.not.match(/\n|hunter2|u:p@/);
    });
  }

  it("are all named when several are bad", () => {
    expect(() => read({ PORT: "x", LOG_LEVEL: "y" })).to.throw(ConfigError, /SERVICE_PORT: .*; SERVICE_LOG_LEVEL: /);
  });

  const good: [string, Record<string, string>, object][] = [
    ["an empty one counts as unset", { PORT: "", DATABASE_URL: " ", LOG_LEVEL: "" }, { PORT: 8080, LOG_LEVEL: "info" }],
    ["spaces around one do not matter", { PORT: " 9000 " }, { PORT: 9000 }],
    [
      "several Redis nodes are separated by commas",
      { ...engines, REDIS_URL: "redis://a, rediss://b ,/run/c.sock" },
      { REDIS_URL: ["redis://a", "rediss://b", "/run/c.sock"] },
    ],
    ["keytabs are on with true", { KEYTAB_ENABLED: "TRUE" }, { KEYTAB_ENABLED: true }],
    ["keytabs stay off with anything else", { KEYTAB_ENABLED: "1" }, { KEYTAB_ENABLED: false }],
    ["soon may be ten years", { KEYTAB_EXPIRING_DAYS: "3650" }, { KEYTAB_EXPIRING_DAYS: 3650 }],
    ["a limit of 0 is one", { RATE_LIMIT_API: "0" }, { RATE_LIMIT_API: 0 }],
  ];
  for (const [what, settings, expected] of good) {
    it(`are read so that ${what}`, () => {
      expect(read(settings)).to.deep.include(expected);
    });
  }

  it("take addresses and networks of both families as proxies", () => {
    const { TRUSTED_PROXIES } = read({ TRUSTED_PROXIES: "10.0.0.0/8, 2001:db8::/32,192.0.2.1" });

    expect(TRUSTED_PROXIES.check("10.1.2.3")).to.equal(true);
    expect(TRUSTED_PROXIES.check("192.0.2.1")).to.equal(true);
    expect(TRUSTED_PROXIES.check("2001:db8::5", "ipv6")).to.equal(true);
    expect(TRUSTED_PROXIES.check("192.0.2.2")).to.equal(false);
  });
});

describe("The certificate and its key", () => {
  let folder: string;
  before(function () {
    folder = mkdtempSync(join(tmpdir(), "holdfast-tls-"));
    try {
      for (const name of ["one", "two"]) makePair(folder, name);
    } catch (error) {
      console.log(`skipped: there is no openssl to make certificates (${String(error)})`);
      this.skip();
    }
    writeFileSync(join(folder, "text"), "text");
  });
  after(() => rmSync(folder, { recursive: true }));

  const tls = (cert: string, key: string) =>
    readTlsFiles(read({ TLS_CERT_FILE: join(folder, cert), TLS_KEY_FILE: join(folder, key) }));

  it("are read when they belong together, and none are needed", () => {
    expect(tls("one.crt", "one.key")?.cert.toString()).to.include("BEGIN CERTIFICATE");
    expect(readTlsFiles(read({}))).to.equal(undefined);
  });

  const bad: [string, string, string, RegExp][] = [
    [
      "there is no such certificate",
      "none.crt",
      "one.key",
      /^SERVICE_TLS_CERT_FILE: cannot read .*none.crt \(ENOENT\)$/,
    ],
    ["there is no such key", "one.crt", "none.key", /^SERVICE_TLS_KEY_FILE: cannot read .*none.key \(ENOENT\)$/],
    ["the certificate is none", "text", "one.key", /^SERVICE_TLS_CERT_FILE: .*text holds no certificate in PEM$/],
    ["the key is none", "one.crt", "text", /^SERVICE_TLS_KEY_FILE: .*text holds no private key in PEM/],
    ["the key is another's", "one.crt", "two.key", /^SERVICE_TLS_KEY_FILE: it is not the key of the certificate/],
  ];
  for (const [why, cert, key, line] of bad) {
    it(`are refused in one line when ${why}`, () => {
      expect(() => tls(cert, key)).to.throw(ConfigError, line);
    });
  }
});

function makePair(folder: string, name: string): void {
  const files = ["-keyout", join(folder, `${name}.key`), "-out", join(folder, `${name}.crt`)];
  const args = [
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-subj",
    `/CN=${name}`,
  ];
  execFileSync("openssl", [...args, ...files], { stdio: "ignore" });
}
