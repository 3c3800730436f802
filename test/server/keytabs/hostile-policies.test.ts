import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const path = "/api/v1/keytabs/cipher-policy";

interface Told {
  readonly before: { readonly allowed_ciphers: readonly string[] };
  readonly after: { readonly allowed_ciphers: readonly string[] };
}

describe("A cipher policy that many replace at once", () => {
  it("has a record without gaps: each one's policy before is another one's after", async () => {
    await server.admin.rest("PUT", path, {
      allowed_ciphers: ["first"],
      deprecated_ciphers: [],
      enforcement_mode: "warn",
    });

    await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        server.admin.rest("PUT", path, {
          allowed_ciphers: [`type-${index}`],
          deprecated_ciphers: [],
          enforcement_mode: "warn",
        }),
      ),
    );

    const { body: last } = await server.admin.rest("GET", path);
    const events = await server.sql(
      "select details from audit_event where action = 'cipher_policy.update' order by occurred_at, id",
    );
    const told: Told[] = events.map(({ details }) => JSON.parse(details)).slice(1);
    const before = told.map((each) => each.before.allowed_ciphers[0]);
    const after = told.map((each) => each.after.allowed_ciphers[0]);
    expect([...before, last.allowed_ciphers[0]]).to.have.members(["first", ...after]);
  });
});
