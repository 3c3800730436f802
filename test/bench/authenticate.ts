import { createHash, type KeyObject } from "node:crypto";
import { AccessTokens } from "../../src/server/auth/access-tokens.ts";
import { openAuth } from "../../src/server/auth/auth.ts";
import { hashOf, newApiToken, newSessionSecret, prefixOf } from "../../src/server/auth/generated-credentials.ts";
import type { Presented } from "../../src/server/wire/identity.ts";
import { type OpenCore, withCore } from "./core.ts";
import type { Effort } from "./options.ts";
import type { Stage } from "./stage.ts";
import { median } from "./subjects.ts";
import { atMost, type Line } from "./table.ts";

const calls = 20_000;

/** What it costs to know who calls, by a credential that was used a moment ago, beside one SHA-256 of an API token. */
export function measureAuthentication(stage: Stage, { rounds }: Effort): Promise<Line[]> {
  return withCore(stage, "authentication", async (core) => {
    const auth = await openAuth(core);
    try {
      const credentials = Object.entries(await makeCredentials(core, auth.pepper));
      const token = newApiToken();
      const floor = () => createHash("sha256").update(token).digest();
      await microsOf(floor);
      for (const [, presented] of credentials) await microsOf(() => auth.authenticate(presented));
      const rows: { floor: number; ours: number[] }[] = [];
      for (let round = 0; round < 2 * rounds + 1; round += 1) {
        const ours = [];
        for (const [, presented] of credentials) ours.push(await microsOf(() => auth.authenticate(presented)));
        rows.push({ floor: await microsOf(floor), ours });
      }
      return credentials.map(([name], index) => ({
        scenario: `know who calls by ${name}`,
        figure: median(rows.map(({ floor: theirs, ours }) => (ours[index] ?? Number.NaN) / theirs)),
        target: atMost(10),
        against: `SHA-256 (${median(rows.map(({ floor: theirs }) => theirs)).toFixed(1)} us)`,
        serverMicros: median(rows.map(({ ours }) => ours[index] ?? Number.NaN)),
      }));
    } finally {
      auth.stop();
    }
  });
}

async function microsOf(work: () => unknown): Promise<number> {
  const beganAt = performance.now();
  for (let call = 0; call < calls; call += 1) await work();
  return ((performance.now() - beganAt) * 1000) / calls;
}

/** Of the administrator. */
async function makeCredentials(
  { db, seal, organizationId }: OpenCore,
  pepper: KeyObject,
): Promise<Record<string, Presented>> {
  const [user] = await db.query<{ id: string }>("select id from user_account where organization_id = $1", [
    organizationId,
  ]);
  const id = user?.id ?? "";
  const tokens = await AccessTokens.open(seal, "holdfast");
  const claims = { sub: id, sub_type: "user", org_id: organizationId, roles: ["admin"], amr: ["srp"] } as const;
  const accessToken = await tokens.issue({ ...claims, credential_version: 2 }, 3600, new Date());
  const apiToken = newApiToken();
  await db.query(
    "insert into api_token (organization_id, owner_id, name, prefix, hash, last_used_at) values ($1, $2, 'bench', $3, $4, now())",
    [organizationId, id, prefixOf(apiToken), hashOf(pepper, apiToken)],
  );
  const cookie = newSessionSecret();
  await db.query(
    `insert into session (organization_id, identity_id, hash, credential_version, expires_at)
     values ($1, $2, $3, 2, now() + interval '12 hours')`,
    [organizationId, id, hashOf(pepper, cookie)],
  );
  return {
    "access token": { bearer: accessToken },
    "API token": { bearer: apiToken },
    session: { cookie },
  };
}
