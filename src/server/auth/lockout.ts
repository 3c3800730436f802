import { run } from "../db/database.ts";
import { wrongState } from "../errors.ts";
import type { Call } from "../wire/call.ts";

/** Refuses when the caller would shut themselves out. `deed` as in "disables". */
export function checkNotSelf(call: Call, identityId: string, deed: string): void {
  if (call.caller.id === identityId) throw wrongState(`nobody ${deed} themselves`);
}

/**
 * Refuses when the organization's last active administrator, a user or a machine identity, would go. Those who remove
 * administrators at the same time take turns on the organization's row: the second one sees what the first one did.
 */
export async function checkAdministratorRemains(call: Call, withoutId: string): Promise<void> {
  const { organizationId } = call.caller;
  await run(call.em, "select 1 from organization where id = $1 for no key update", [organizationId]);
  const administrators = await run<{ id: string }>(
    call.em,
    `select b.identity_id as id from role_binding b
     where b.organization_id = $1 and b.role = 'admin' and b.project_id is null
       and (exists (select 1 from user_account u where u.id = b.identity_id and u.status = 'active')
         or exists (select 1 from machine_identity m where m.id = b.identity_id and m.status = 'active'))`,
    [organizationId],
  );
  if (administrators.length > 0 && administrators.every(({ id }) => id === withoutId)) {
    throw wrongState("the organization would be left without an active administrator");
  }
}
