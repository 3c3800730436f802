import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { expect } from "chai";
import { readConfig } from "../../../src/server/config.ts";
import { evaluate } from "../../../src/server/governance/evaluation.ts";
import { factsOf } from "../../../src/server/governance/facts.ts";
import { Client } from "../../harness/client.ts";
import { isMissing } from "../../harness/installed.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { evaluationOf, inShort, type Result, resultOf, violationsOf } from "./evaluating.ts";

const server = useServer();
let admin: Client;
let organizationId: string;
let name: string;
beforeEach(async () => {
  name = `acme-${Math.random()}`;
  ({ admin, organizationId } = await server.otherOrganization(name));
});

const setPolicies = async (policies: Record<string, unknown>) => {
  const { status, body } = await admin.rest("PUT", `/api/v1/organizations/${organizationId}`, policies);
  expect(status, JSON.stringify(body)).to.equal(200);
};
const outcomes = (results: readonly { rule: string; status: string }[]) =>
  Object.fromEntries(results.map(({ rule, status }) => [rule.split(".")[1], status]));

describe("password_policy", () => {
  const strict = {
    min_length: 14,
    max_length: 64,
    require_uppercase: true,
    require_lowercase: true,
    require_numbers: true,
    require_special: true,
  };

  it("fails where the organization asks for less, and passes where it asks for as much or more", async () => {
    const before = await evaluationOf(admin, { password_policy: strict });
    await setPolicies({ password_policy: strict });
    const after = await evaluationOf(admin, { password_policy: { ...strict, min_length: 13, max_length: 65 } });

    const all = (status: string) => Object.fromEntries(Object.keys(strict).map((field) => [field, status]));
    expect(outcomes(before.results)).to.deep.equal(all("failed"));
    expect(outcomes(after.results)).to.deep.equal(all("passed"));
    expect(before.results[0]).to.deep.include({
      checked: 1,
      violation_count: 1,
      message: "the organization's password policy says min_length 8",
      violations: [{ resource_type: "organization", resource_id: organizationId, name, actual: "min_length 8" }],
    });
  });

  it("asks for nothing by false and 0", async () => {
    const { status, results } = await evaluationOf(admin, {
      password_policy: { require_uppercase: false, history_count: 0 },
    });

    expect(status).to.equal("compliant");
    expect(outcomes(results)).to.deep.equal({ require_uppercase: "not_applicable", history_count: "not_applicable" });
  });

  it("cannot know how old passwords are, nor whether one comes again, and says why", async () => {
    const { status, results } = await evaluationOf(admin, { password_policy: { max_age_days: 90, history_count: 5 } });

    expect(status).to.equal("partially_evaluated");
    expect(results.map(inShort)).to.deep.equal([
      "not_evaluated 0/0: passwords do not expire here, and when one was chosen is not kept",
      "not_evaluated 0/0: the server never sees a password (SRP), so it cannot tell whether one comes again",
    ]);
  });

  it("fails in both lengths when no password could have both", async () => {
    await setPolicies({ password_policy: { min_length: 20 } });
    const { status, results } = await evaluationOf(admin, { password_policy: { min_length: 20, max_length: 10 } });

    expect(status).to.equal("non_compliant");
    expect(results.map(inShort)).to.deep.equal(
      Array(2).fill("failed 0/0: min_length 20 is greater than max_length 10: nothing can be both"),
    );
  });
});

describe("session_policy", () => {
  const path = "session_policy.max_idle_timeout_minutes";

  it("compares how long a session may be idle, which is 30 minutes unless the organization says less", async () => {
    const before = await resultOf(admin, path, 15);
    await setPolicies({ session_policy: { max_idle_timeout_minutes: 15 } });
    const after = await resultOf(admin, path, 15);

    expect(inShort(before)).to.equal("failed 1/1: a session may be idle for 30 minutes");
    expect(violationsOf(before)).to.deep.equal([`${name}: 30 minutes`]);
    expect(inShort(after)).to.equal("passed 0/1: a session may be idle for 15 minutes");
  });
});

describe("mfa_policy", () => {
  it("fails for whatever asks for a second factor, since the service offers none", async () => {
    for (const level of ["optional", "conditional", "required"]) {
      const result = await resultOf(admin, "mfa_policy.min_enforcement_level", level);
      expect(inShort(result)).to.equal("failed 1/1: the service asks for no second factor");
    }
    expect(inShort(await resultOf(admin, "mfa_policy.min_enforcement_level", "disabled"))).to.match(/^passed 0\/1/);
    const methods = await resultOf(admin, "mfa_policy.required_methods", ["totp", "webauthn", "totp"]);
    expect(inShort(methods)).to.match(/^failed 2\/2: 2 of 2 methods are not offered/);
    expect(violationsOf(methods)).to.deep.equal(["totp: not offered", "webauthn: not offered"]);
    expect((await resultOf(admin, "mfa_policy.required_methods", [])).status).to.equal("not_applicable");
  });
});

describe("encryption_policy", () => {
  const version = "encryption_policy.min_tls_version";
  const suites = "encryption_policy.required_cipher_suites";
  const suite = "TLS_AES_128_GCM_SHA256";

  it("fails without TLS, and is not evaluated behind a proxy", async () => {
    const proxied = await server.startReplica({ TRUSTED_PROXIES: "10.0.0.0/8" });
    const there = new Client(urlOf(proxied), admin.token);

    for (const [path, required] of [
      [version, "1.0"],
      [suites, [suite]],
    ] as const) {
      expect(inShort(await resultOf(admin, path, required))).to.equal("failed 1/1: connections are not encrypted");
      expect(inShort(await resultOf(there, path, required))).to.match(/^not_evaluated 0\/0: behind a proxy/);
    }
    expect((await resultOf(admin, suites, [])).status).to.equal("not_applicable");
  });

  describe("with TLS", () => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-tls-"));
    const settings = { TLS_CERT_FILE: join(folder, "cert.pem"), TLS_KEY_FILE: join(folder, "key.pem") };
    before(function () {
      if (isMissing("openssl")) this.skip();
      const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"];
      const files = ["-keyout", settings.TLS_KEY_FILE, "-out", settings.TLS_CERT_FILE];
      execFileSync("openssl", ["req", "-x509", ...kind, ...files], { stdio: "ignore" });
    });
    after(() => rmSync(folder, { recursive: true, force: true }));
    const environment = () =>
      Object.fromEntries(Object.entries(settings).map(([setting, value]) => [`SERVICE_${setting}`, value]));

    it("knows the oldest version that the listener speaks", async () => {
      const replica = await server.startReplica(settings);
      const speaks = (only: "TLSv1.1" | "TLSv1.2") =>
        new Promise<boolean>((resolve) => {
          const socket = connect(
            // The client would refuse what is this old by itself.
            {
              port: replica.address?.port ?? 0,
              rejectUnauthorized: false,
              minVersion: only,
              maxVersion: only,
              ciphers: "ALL:@SECLEVEL=0",
            },
            () => resolve(true),
          );
          socket.once("error", () => resolve(false));
          socket.once("secureConnect", () => socket.destroy());
        });
      const { connections } = factsOf(readConfig(environment()));

      expect([await speaks("TLSv1.1"), await speaks("TLSv1.2")]).to.deep.equal([false, true]);
      expect(connections).to.deep.include({ kind: "tls", minVersion: "1.2" });
    });

    it("passes for what the listener speaks, and fails for what it does not", async () => {
      const facts = factsOf(readConfig(environment()));
      const evaluated = async (min_tls_version: string, required_cipher_suites: string[]) => {
        const report = { encryption_policy: { min_tls_version, required_cipher_suites } };
        return (await evaluate(server.server.core.db, organizationId, report, facts)).results;
      };

      const [oldest, offered] = await evaluated("1.2", [suite, "ecdhe-ecdsa-aes128-gcm-sha256"]);
      const [newest, missing] = await evaluated("1.3", [suite, "TLS_RSA_WITH_RC4_128_MD5", "NONE", "NONE"]);

      expect([oldest, offered].map((result) => inShort(result as Result))).to.deep.equal([
        "passed 0/1: the listener speaks TLS 1.2 and newer",
        "passed 0/2: 0 of 2 cipher suites are not offered",
      ]);
      expect([newest, missing].map((result) => inShort(result as Result))).to.deep.equal([
        "failed 1/1: the listener speaks TLS 1.2 and newer",
        "failed 2/3: 2 of 3 cipher suites are not offered",
      ]);
      expect(violationsOf(newest as Result)).to.deep.equal(["listener: TLS 1.2"]);
      expect(violationsOf(missing as Result)).to.deep.equal([
        "NONE: not offered",
        "TLS_RSA_WITH_RC4_128_MD5: not offered",
      ]);
    });

    it("passes for nothing behind a proxy, which may speak what the listener does not", async () => {
      const facts = factsOf(readConfig({ ...environment(), SERVICE_TRUSTED_PROXIES: "10.0.0.0/8" }));
      const evaluated = async (min_tls_version: string, required_cipher_suites: string[]) => {
        const report = { encryption_policy: { min_tls_version, required_cipher_suites } };
        return (await evaluate(server.server.core.db, organizationId, report, facts)).results;
      };

      const held = await evaluated("1.2", [suite]);
      const broken = await evaluated("1.3", ["NONE"]);

      expect(held.map(({ status }) => status)).to.deep.equal(["not_evaluated", "not_evaluated"]);
      expect(held[0]?.message).to.equal(
        "the listener speaks TLS 1.2 and newer; behind a proxy: how clients are connected to it is not known here",
      );
      expect(broken.map(({ status }) => status)).to.deep.equal(["failed", "failed"]);
    });

    it("knows the cipher suites that are agreed to, by the names of IANA and of OpenSSL", async () => {
      const { connections } = factsOf(readConfig(environment()));
      if (connections.kind !== "tls") throw new Error("there is no TLS");
      const offered = await connections.cipherSuites();

      expect(offered).to.include.keys(
        suite,
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
      );
      // The key is not one of RSA; and nobody should speak these.
      expect(offered).not.to.include("ECDHE-RSA-AES128-GCM-SHA256");
      expect([...offered].filter((each) => /RC4|3DES|NULL|PSK|MD5/.test(each))).to.deep.equal([]);
    });
  });
});
