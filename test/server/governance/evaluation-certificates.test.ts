import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import { evaluationOf, inShort, resultOf, violationsOf } from "./evaluating.ts";
import { newAuthority, newCertificate } from "./issued.ts";

const server = useServer();
let admin: Client;
let organizationId: string;
let root: string;
beforeEach(async () => {
  ({ admin, organizationId } = await server.otherOrganization());
  root = await newAuthority(server, organizationId, "root");
});

const issue = (name: string, given: Parameters<typeof newCertificate>[3] = {}, ca = root) =>
  newCertificate(server, ca, name, given);
const authority = (name: string, given: Parameters<typeof newAuthority>[3]) =>
  newAuthority(server, organizationId, name, given);
const onlyTheRoot = "failed 1/1";

describe("min_key_size_rsa and min_key_size_ecdsa", () => {
  const rsa = "certificate_policy.min_key_size_rsa";
  const ecdsa = "certificate_policy.min_key_size_ecdsa";

  it("fail for shorter keys of certificates and of authorities", async () => {
    const ca = await authority("old root", { algorithm: "RSA", size: 2048 });
    const leaf = await issue("www", { algorithm: "RSA", size: 2048 });
    await issue("long", { algorithm: "RSA", size: 4096 });

    const result = await resultOf(admin, rsa, 3072);

    expect(inShort(result)).to.equal("failed 2/3: 2 of 3 RSA keys have fewer than 3072 bits");
    expect(result.violations).to.deep.equal([
      { resource_type: "certificate_authority", resource_id: ca, name: "old root", actual: "2048 bits" },
      { resource_type: "certificate", resource_id: leaf.id, name: "www", actual: "2048 bits" },
    ]);
    expect(inShort(await resultOf(admin, rsa, 2048))).to.equal("passed 0/3: 0 of 3 RSA keys have fewer than 2048 bits");
  });

  it("look at keys of their algorithm only, and are not applicable when there are none", async () => {
    await issue("ed", { algorithm: "Ed25519" });

    expect(inShort(await resultOf(admin, rsa, 2048))).to.equal("not_applicable 0/0: there are no RSA keys");
    expect(inShort(await resultOf(admin, ecdsa, 384))).to.match(/^failed 1\/1/);
    expect(inShort(await resultOf(admin, ecdsa, 256))).to.match(/^passed 0\/1/);
  });
});

describe("allowed_algorithms", () => {
  const path = "certificate_policy.allowed_algorithms";

  it("fails for certificates and authorities with a key of another one", async () => {
    await issue("ed", { algorithm: "Ed25519" });
    await issue("rsa", { algorithm: "RSA", size: 2048 });

    const result = await resultOf(admin, path, ["RSA", "ECDSA"]);

    expect(inShort(result)).to.equal("failed 1/3: 1 of 3 keys are not RSA or ECDSA");
    expect(violationsOf(result)).to.deep.equal(["ed: Ed25519"]);
    expect((await resultOf(admin, path, ["RSA", "ECDSA", "Ed25519"])).status).to.equal("passed");
  });

  it("allows none by an empty list", async () => {
    expect(inShort(await resultOf(admin, path, []))).to.equal(
      "failed 1/1: 1 of 1 keys are there, and no algorithm is allowed",
    );
  });

  it("is not applicable where there is neither a certificate nor an authority", async () => {
    const { admin: other } = await server.otherOrganization();

    expect(inShort(await resultOf(other, path, []))).to.equal("not_applicable 0/0: there are no keys");
  });
});

describe("max_validity_days and min_validity_days", () => {
  const most = "certificate_policy.max_validity_days";
  const least = "certificate_policy.min_validity_days";

  it("compare the whole days that certificates are valid, not those of authorities", async () => {
    await issue("quarter", { validDays: 90 });
    await issue("year", { validDays: 365 });

    const long = await resultOf(admin, most, 90);
    const short = await resultOf(admin, least, 91);

    expect(inShort(long)).to.equal("failed 1/2: 1 of 2 certificates are valid for more than 90 days");
    expect(violationsOf(long)).to.deep.equal(["year: 365 days"]);
    expect(inShort(short)).to.equal("failed 1/2: 1 of 2 certificates are valid for less than 91 days");
    expect(violationsOf(short)).to.deep.equal(["quarter: 90 days"]);
    expect((await resultOf(admin, most, 365)).status).to.equal("passed");
    expect((await resultOf(admin, least, 90)).status).to.equal("passed");
  });

  it("are not applicable without certificates", async () => {
    expect(inShort(await resultOf(admin, most, 90))).to.equal("not_applicable 0/0: there are no certificates");
    expect(inShort(await resultOf(admin, least, 90))).to.equal("not_applicable 0/0: there are no certificates");
  });

  it("fail both when no certificate could have both", async () => {
    const { status, results } = await evaluationOf(admin, {
      certificate_policy: { max_validity_days: 30, min_validity_days: 31 },
    });

    expect(status).to.equal("non_compliant");
    expect(results.map(inShort)).to.deep.equal(
      Array(2).fill("failed 0/0: min_validity_days 31 is greater than max_validity_days 30: nothing can be both"),
    );
  });
});

describe("require_auto_renewal", () => {
  const path = "certificate_policy.require_auto_renewal";

  it("fails for certificates that are not renewed by themselves, unless they have a successor", async () => {
    await issue("by hand");
    await issue("replaced", { isRenewed: true });
    await issue("by itself", { autoRenew: true });

    const result = await resultOf(admin, path, true);

    expect(inShort(result)).to.equal("failed 1/2: 1 of 2 certificates are not renewed by themselves");
    expect(violationsOf(result)).to.deep.equal(["by hand: renewal is off"]);
  });

  it("passes when all are, is not applicable without any, and asks for nothing when it is false", async () => {
    const before = await resultOf(admin, path, true);
    await issue("by itself", { autoRenew: true });

    expect(before.status).to.equal("not_applicable");
    expect((await resultOf(admin, path, true)).status).to.equal("passed");
    expect((await resultOf(admin, path, false)).message).to.equal("nothing is required");
  });
});

describe("max_cert_rotation_days", () => {
  it("compares how long certificates are valid", async () => {
    const path = "rotation_policy.max_cert_rotation_days";
    const before = await resultOf(admin, path, 90);
    await issue("quarter", { validDays: 90 });
    const passed = await resultOf(admin, path, 90);
    await issue("", { validDays: 91 });
    const failed = await resultOf(admin, path, 90);

    expect([before.status, passed.status]).to.deep.equal(["not_applicable", "passed"]);
    expect(inShort(failed)).to.equal("failed 1/2: 1 of 2 certificates are in use for more than 90 days");
    expect(failed.violations[0]?.name).to.match(/^[0-9a-f]{40}$/);
    expect(failed.violations[0]?.actual).to.equal("91 days");
  });
});

describe("certificate_policy", () => {
  const path = "certificate_policy.min_key_size_ecdsa";

  it("looks at what is relied upon only: at nothing that is revoked or expired", async () => {
    const revokedCa = await authority("revoked ca", { status: "revoked" });
    await authority("expired ca", { endsInDays: 0 });
    await issue("revoked", { isRevoked: true });
    await issue("expired", { validDays: 90, issuedDaysAgo: 90 });
    await issue("of a revoked ca", {}, revokedCa);

    const result = await resultOf(admin, path, 384);

    expect(inShort(result)).to.match(new RegExp(`^${onlyTheRoot}`));
    expect(violationsOf(result)).to.deep.equal(["root: 256 bits"]);
  });

  it("looks at authorities that are disabled too, and at what they issued", async () => {
    const disabled = await authority("disabled ca", { status: "disabled" });
    await issue("www", {}, disabled);

    expect(violationsOf(await resultOf(admin, path, 384))).to.deep.equal([
      "disabled ca: 256 bits",
      "root: 256 bits",
      "www: 256 bits",
    ]);
  });
});
