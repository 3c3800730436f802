import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import { evaluationOf, inShort, resultOf, violationsOf } from "./evaluating.ts";

const server = useServer();
/** An organization of its own for each test. */
let admin: Client;
let projectId: string;
beforeEach(async () => {
  ({ admin, projectId } = await server.otherOrganization());
});

const newSecret = (key: string, fields: Record<string, unknown> = {}) =>
  server.secret({ project_id: projectId, key, ...fields }, admin);
/** A secret whose value is so many days old. */
async function oldSecret(key: string, days: number) {
  const secret = await newSecret(key);
  await age(secret.id, days);
  return secret;
}
const age = (id: string, days: number) =>
  server.sql("update secret_version set created_at = now() - $2 * interval '1 hour' where secret_id = $1", [
    id,
    days * 24,
  ]);
const rotated = (interval_days: number) => ({ rotation: { enabled: true, interval_days } });

describe("max_secret_rotation_days", () => {
  const path = "rotation_policy.max_secret_rotation_days";

  it("fails for the secrets whose value is older, and says which: 2 of 12 secrets exceed 90 days", async () => {
    const password = await oldSecret("DB_PASSWORD", 120);
    await oldSecret("API_KEY", 91);
    for (let n = 0; n < 10; n += 1) await oldSecret(`young-${n}`, 9 * n);

    const { status, summary, results } = await evaluationOf(admin, {
      rotation_policy: { max_secret_rotation_days: 90 },
    });

    expect(status).to.equal("non_compliant");
    expect(summary).to.deep.equal({ rules: 1, passed: 0, failed: 1, not_applicable: 0, not_evaluated: 0 });
    expect(results).to.have.length(1);
    expect(results[0]).to.deep.include({
      rule: path,
      required: 90,
      status: "failed",
      checked: 12,
      violation_count: 2,
      message: "2 of 12 secrets exceed 90 days",
    });
    expect(results[0]?.violations[1]).to.deep.equal({
      resource_type: "secret",
      resource_id: password.id,
      name: "DB_PASSWORD",
      actual: "120 days",
    });
    expect(violationsOf(results[0] as never)).to.deep.equal(["API_KEY: 91 days", "DB_PASSWORD: 120 days"]);
  });

  it("passes when no value is older, and is not applicable without secrets", async () => {
    const before = await resultOf(admin, path, 90);
    await oldSecret("k", 89);
    const after = await resultOf(admin, path, 90);

    expect(inShort(before)).to.equal("not_applicable 0/0: there are no secrets");
    expect(inShort(after)).to.equal("passed 0/1: 0 of 1 secrets exceed 90 days");
  });

  it("counts hours too: 90 days and an hour are more than 90 days", async () => {
    await oldSecret("k", 90 + 1 / 24);

    expect(violationsOf(await resultOf(admin, path, 90))).to.deep.equal(["k: more than 90 days"]);
    expect((await resultOf(admin, path, 91)).status).to.equal("passed");
  });

  it("counts from the current version, which a new value begins", async () => {
    const { id } = await oldSecret("k", 120);
    await admin.rest("PUT", `/api/v1/secrets/${id}`, { value: "v2" });

    expect((await resultOf(admin, path, 90)).status).to.equal("passed");
  });

  it("compares the interval of secrets that are rotated, whatever the age of their value", async () => {
    const { id } = await newSecret("often", rotated(30));
    await age(id, 200);
    await newSecret("seldom", rotated(91));

    expect(violationsOf(await resultOf(admin, path, 90))).to.deep.equal(["seldom: rotated every 91 days"]);
  });

  it("looks at secrets in use only: not at archived, deleted or expired ones", async () => {
    const archived = await oldSecret("archived", 120);
    const deleted = await oldSecret("deleted", 120);
    const expired = await oldSecret("expired", 120);
    await oldSecret("in-use", 120);
    await admin.rest("POST", `/api/v1/secrets/${archived.id}/archive`);
    await admin.rest("DELETE", `/api/v1/secrets/${deleted.id}`);
    await server.sql("update secret set expires_at = now() where id = $1", [expired.id]);

    const result = await resultOf(admin, path, 90);

    expect(violationsOf(result)).to.deep.equal(["in-use: 120 days"]);
    expect(result.checked).to.equal(1);
  });

  it("takes as many days as an integer holds", async () => {
    await oldSecret("k", 120);

    expect((await resultOf(admin, path, 2_147_483_647)).status).to.equal("passed");
    expect(violationsOf(await resultOf(admin, path, 1))).to.deep.equal(["k: 120 days"]);
  });
});

describe("require_rotation_enabled", () => {
  const path = "rotation_policy.require_rotation_enabled";

  it("fails for each secret in use that is not rotated by itself", async () => {
    await newSecret("rotated", rotated(30));
    await newSecret("b-kept");
    await newSecret("a-kept");
    const archived = await newSecret("archived");
    await admin.rest("POST", `/api/v1/secrets/${archived.id}/archive`);

    const result = await resultOf(admin, path, true);

    expect(inShort(result)).to.equal("failed 2/3: 2 of 3 secrets are not rotated by themselves");
    expect(violationsOf(result)).to.deep.equal(["a-kept: rotation is off", "b-kept: rotation is off"]);
  });

  it("passes when all are, is not applicable without secrets, and asks for nothing when it is false", async () => {
    const before = await resultOf(admin, path, true);
    await newSecret("rotated", rotated(30));
    const after = await resultOf(admin, path, true);
    await newSecret("kept");

    expect([before.status, after.status]).to.deep.equal(["not_applicable", "passed"]);
    expect(inShort(await resultOf(admin, path, false))).to.equal("not_applicable 0/0: nothing is required");
  });
});
