import type { Identities } from "../context.ts";
import { run } from "../db/database.ts";
import { authInvalid } from "../errors.ts";
import type { Call } from "../wire/call.ts";

interface Enrollment {
  readonly enrollmentToken: string;
  readonly hostname: string;
  readonly version: string;
  readonly os: string;
}

/** One message, whatever is wrong: nobody learns whether a token exists. */
const refused = () =>
  authInvalid("the enrollment token was used, has expired, or is not one for this host; have another one made");

/** The name of an identity has at most 255 characters, and a hostname may have as many. */
const longestHostname = 230;

/**
 * Uses up an enrollment token and makes the agent that it is for, in the call's transaction: of two that use a token at
 * once the second one waits, and finds it used. Throws AUTH_INVALID. A retry whose first answer got lost takes another
 * token, since what was made is shown once.
 */
export async function enrollAgent(call: Call, identities: Identities, enrollment: Enrollment) {
  const { enrollmentToken, hostname, version, os } = enrollment;
  const hash = identities.hashOf(enrollmentToken);
  const [token] = await run<{ id: string; organization_id: string }>(
    call.em,
    `update agent_enrollment_token set used_at = now()
     where hash = $1 and used_at is null and expires_at > now() and (hostname is null or hostname = $2)
     returning id, organization_id`,
    [hash, hostname.toLowerCase()],
  );
  call.about({ name: hostname });
  if (token === undefined) {
    call.organizationId = await organizationOf(call, hash);
    throw refused();
  }
  const { organization_id: organizationId } = token;
  call.organizationId = organizationId;
  const name = `agent ${[...hostname].slice(0, longestHostname).join("")} ${token.id.slice(-12)}`;
  const draft = { organizationId, name, roles: ["agent"], description: "made when the agent enrolled" };
  const identity = await identities.create(call.em, draft);
  await run(call.em, "insert into agent (id, organization_id, hostname, version, os) values ($1, $2, $3, $4, $5)", [
    identity.id,
    organizationId,
    hostname,
    version,
    os,
  ]);
  call.about({ id: identity.id, details: { enrollment_token_id: token.id } });
  return { agentId: identity.id, clientId: identity.clientId, clientSecret: identity.clientSecret };
}

/** Whose log a failed attempt belongs to: that of the token's organization or, for no token, of the first one. */
async function organizationOf(call: Call, hash: Buffer): Promise<string | undefined> {
  const [whose] = await run<{ id: string }>(
    call.em,
    `select coalesce(t.organization_id, o.id) as id
     from organization o left join agent_enrollment_token t on t.hash = $1 where o.instance`,
    [hash],
  );
  return whose?.id;
}
