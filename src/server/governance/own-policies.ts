import type { PasswordPolicy } from "../../standards/password-policy.ts";
import { passwordPolicyOf, type SessionPolicy, sessionPolicyOf } from "../auth/organization-policies.ts";
import type { Queries } from "../db/database.ts";

/** An organization with the policies that it set for itself, as they were at a time of the database's clock. */
export interface OwnPolicies {
  readonly readAt: Date;
  readonly id: string;
  readonly name: string;
  readonly passwordPolicy: PasswordPolicy;
  readonly sessionPolicy: SessionPolicy;
}

export async function readOwnPolicies(queries: Queries, id: string): Promise<OwnPolicies> {
  const [row] = await queries.query<{ name: string; password_policy: object; session_policy: object; now: string }>(
    "select name, password_policy, session_policy, clock_timestamp() as now from organization where id = $1",
    [id],
  );
  if (row === undefined) throw new Error("there is no such organization");
  return {
    readAt: new Date(row.now),
    id,
    name: row.name,
    passwordPolicy: passwordPolicyOf(row.password_policy),
    sessionPolicy: sessionPolicyOf(row.session_policy),
  };
}
