import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { importKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { inShort, resultOf, violationsOf } from "./evaluating.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
let admin: Client;
let projectId: string;
let organizationId: string;
beforeEach(async () => {
  ({ admin, projectId, organizationId } = await server.otherOrganization());
});

const newSecret = (key: string) => server.secret({ project_id: projectId, key }, admin);
const newKeytab = (name: string) => importKeytab(admin, undefined, { name, project_id: projectId });

describe("required_patterns", () => {
  const path = "naming_policy.required_patterns";

  it("fails for the names of secrets and keytabs that do not match each of them, and says which pattern", async () => {
    await newSecret("APP_DB");
    const lower = await newSecret("app_db");
    await newSecret("APP_DB_OF_A_VERY_LONG_NAME");
    const keytab = await newKeytab("web server");

    const result = await resultOf(admin, path, ["^[A-Z_]+$", "^.{1,10}$"]);

    expect(inShort(result)).to.equal("failed 3/4: 3 of 4 names do not match every required pattern");
    expect(result.violations).to.deep.equal([
      {
        resource_type: "secret",
        resource_id: result.violations[0]?.resource_id,
        name: "APP_DB_OF_A_VERY_LONG_NAME",
        actual: "does not match ^.{1,10}$",
      },
      { resource_type: "secret", resource_id: lower.id, name: "app_db", actual: "does not match ^[A-Z_]+$" },
      { resource_type: "keytab", resource_id: keytab.id, name: "web server", actual: "does not match ^[A-Z_]+$" },
    ]);
  });

  it("passes when all match, and is not applicable without names or without patterns", async () => {
    const before = await resultOf(admin, path, ["^APP_"]);
    await newSecret("APP_DB");

    expect(inShort(before)).to.equal("not_applicable 0/0: there are no names");
    expect(inShort(await resultOf(admin, path, ["^APP_"]))).to.equal(
      "passed 0/1: 0 of 1 names do not match every required pattern",
    );
    expect(inShort(await resultOf(admin, path, []))).to.equal("not_applicable 0/0: nothing is required");
  });

  it("matches anywhere in a name unless the pattern says where", async () => {
    await newSecret("APP_DB_KEY");

    expect((await resultOf(admin, path, ["DB", "."])).status).to.equal("passed");
    expect((await resultOf(admin, path, ["^DB$"])).status).to.equal("failed");
  });
});

describe("forbidden_patterns", () => {
  const path = "naming_policy.forbidden_patterns";

  it("fails for each name that matches one of them", async () => {
    await newSecret("tmp-key");
    await newSecret("key");
    await newKeytab("old tmp");

    const result = await resultOf(admin, path, ["nothing", "tmp"]);

    expect(inShort(result)).to.equal("failed 2/3: 2 of 3 names match a forbidden pattern");
    expect(violationsOf(result)).to.deep.equal(["old tmp: matches tmp", "tmp-key: matches tmp"]);
  });

  it("passes when none matches, and is not applicable without names or without patterns", async () => {
    const before = await resultOf(admin, path, ["tmp"]);
    await newSecret("key");

    expect(inShort(before)).to.equal("not_applicable 0/0: there are no names");
    expect(inShort(await resultOf(admin, path, ["tmp"]))).to.equal(
      "passed 0/1: 0 of 1 names match a forbidden pattern",
    );
    expect(inShort(await resultOf(admin, path, []))).to.equal("not_applicable 0/0: nothing is required");
  });
});

describe("naming_policy", () => {
  it("looks at names in use: not at archived, deleted or expired secrets, nor at deleted keytabs", async () => {
    const [archived, deleted, expired] = [await newSecret("a"), await newSecret("d"), await newSecret("e")];
    const keytab = await newKeytab("k");
    await newSecret("in use");
    await admin.rest("POST", `/api/v1/secrets/${archived.id}/archive`);
    await admin.rest("DELETE", `/api/v1/secrets/${deleted.id}`);
    await server.sql("update secret set expires_at = now() where id = $1", [expired.id]);
    await admin.rest("DELETE", `/api/v1/keytabs/${keytab.id}`);

    const result = await resultOf(admin, "naming_policy.forbidden_patterns", ["."]);

    expect(violationsOf(result)).to.deep.equal(["in use: matches ."]);
  });

  describe("for more names than fit into a page", () => {
    it("looks at each of them once, and lists the first hundred by name", async () => {
      await server.sql(
        `insert into secret (organization_id, project_id, key, created_by)
         select $1, $2, 'name-' || lpad((n * 7919 % 11000)::text, 5, '0'), 'test' from generate_series(1, 11000) n`,
        [organizationId, projectId],
      );

      const result = await resultOf(admin, "naming_policy.forbidden_patterns", ["-"]);

      expect(inShort(result)).to.equal("failed 11000/11000: 11000 of 11000 names match a forbidden pattern");
      expect(result.violations.map(({ name }) => name)).to.deep.equal(
        Array.from({ length: 100 }, (_, n) => `name-${String(n).padStart(5, "0")}`),
      );
    });
  });
});
