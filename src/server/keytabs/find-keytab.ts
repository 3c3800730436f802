import { run } from "../db/database.ts";
import { notFound } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { expireIfOver } from "./expiry.ts";
import { Keytab } from "./keytab.ts";
import { type KeytabFields, keytabId, selectFields, uuidOf } from "./keytab-record.ts";

/**
 * A keytab that is not deleted, by either form of its id, locked: who changes one keytab takes turns. A report that says
 * which files are its need not wait: it may hold files that the keytab is about to get. One whose time is over is found as
 * the sweep leaves it.
 */
export async function lockKeytab(call: Call, id: string): Promise<Keytab> {
  const uuid = uuidOf(id);
  const own = [uuid, call.caller.organizationId];
  await run(call.em, "select 1 from keytab where id = $1 and organization_id = $2 for no key update", own);
  const locked = await call.em.findOne(Keytab, { id: uuid, deletedAt: null });
  const keytab = authorizeFound(call, locked ?? undefined);
  expireIfOver(call, keytab);
  return keytab;
}

/** What answers say of a keytab that is not deleted, by either form of its id. */
export async function findKeytab(call: Call, id: string): Promise<KeytabFields> {
  const [keytab] = await call.query<KeytabFields>(
    `select ${selectFields} from keytab k where k.id = $1 and k.organization_id = $2 and k.deleted_at is null`,
    [uuidOf(id), call.caller.organizationId],
  );
  return authorizeFound(call, keytab);
}

/** Notes what the call is about, and asks whether the caller may. */
export function authorizeFound<Fields extends Pick<KeytabFields, "id" | "name" | "projectId">>(
  call: Call,
  keytab: Fields | undefined,
): Fields {
  if (keytab === undefined) throw notFound("keytab");
  const { id, name, projectId } = keytab;
  call.about({ id: keytabId(id), name, ...(projectId != null && { projectId }) });
  call.authorizeIn(projectId ?? null);
  return keytab;
}
