import { notFound, permissionDenied } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { type AuthorityRow, selectFields } from "./authority-record.ts";

/** Authorities belong to no project: whoever holds the permission in any project may read all of them. */
export function authorizeReading(call: Call): void {
  if (call.visibleProjects?.length === 0) throw permissionDenied("certificate:read");
}

/** An authority of the caller's organization, locked in a call that changes something. */
export async function findAuthority(call: Call, id: string): Promise<AuthorityRow> {
  const lock = call.policy?.readOnly ? "" : " for no key update";
  const [row] = await call.query<AuthorityRow>(
    `select ${selectFields} from certificate_authority a where a.id = $1 and a.organization_id = $2${lock}`,
    [id, call.caller.organizationId],
  );
  if (row === undefined) throw notFound("certificate authority");
  call.about({ id: row.id, name: row.name });
  return row;
}
