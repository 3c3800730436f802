import type { RevocationReason } from "../../standards/x509/revocation-reasons.ts";
import { run } from "../db/database.ts";
import type { Call } from "../wire/call.ts";
import type { AuthorityRow } from "./authority-record.ts";
import { requestCrls } from "./crl-queue.ts";
import { findAuthority } from "./find-authority.ts";

interface Revoked {
  readonly id: string;
  readonly name: string;
  readonly parentId: string;
}

/**
 * Revokes authorities, and what their issuers say of their certificates. Of those that are revoked already it takes those
 * only that were revoked together with the one that is revoked now, so that they follow when its reason changes.
 */
const revoke = `with a as (
    update certificate_authority set status = 'revoked', revoked_at = $3, revocation_reason = $4, updated_at = $5
    where id = any($1) and organization_id = $2 and (revoked_at is null or (revoked_at = $3 and revocation_reason = $6))
    returning id, name, parent_id, serial_number),
  s as (update certificate_status s set revoked_at = $3, revocation_reason = $4
    from a where s.ca_id = a.parent_id and s.serial_number = a.serial_number)
  select id, name, parent_id as "parentId" from a`;

/**
 * Revokes an authority and all below it, in the call's transaction. One that is revoked stays as it is, but that any
 * reason may become key_compromise.
 */
export async function revokeAuthority(call: Call, id: string, reason: RevocationReason): Promise<AuthorityRow> {
  const authority = await findAuthority(call, id);
  const { revoked_at: revokedAt, revocation_reason: reasonBefore } = authority;
  call.about({ details: { reason, authorities: 0 } });
  if (revokedAt !== null && (reason !== "key_compromise" || reasonBefore === reason)) return authority;
  const ids = [id, ...(await lockBelow(call, id))];
  const at = revokedAt === null ? call.now : new Date(revokedAt);
  const { organizationId } = call.caller;
  const revoked = await run<Revoked>(call.em, revoke, [ids, organizationId, at, reason, call.now, reasonBefore]);
  for (const each of revoked) {
    if (each.id !== id)
      call.alsoRecord("ca.revoke", { id: each.id, name: each.name, details: { reason, revoked_with: id } });
  }
  call.about({ details: { reason, authorities: revoked.length } });
  await requestCrls(call.em, [...new Set(revoked.flatMap((each) => [each.parentId, each.id]))]);
  return findAuthority(call, id);
}

/**
 * All authorities below one that is locked, locked from the top down. Level by level, since only what is below a locked
 * authority gets no more of its kind: a new one waits for its parent.
 */
async function lockBelow(call: Call, id: string): Promise<string[]> {
  const all: string[] = [];
  for (let level = [id]; level.length > 0; all.push(...level)) {
    const rows = await call.query<{ id: string }>(
      `select id from certificate_authority
       where parent_id = any($1) and id <> parent_id and organization_id = $2 order by id for no key update`,
      [level, call.caller.organizationId],
    );
    level = rows.map((row) => row.id);
  }
  return all;
}
