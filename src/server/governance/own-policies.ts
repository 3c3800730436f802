import type { PasswordPolicy } from "../../standards/password-policy.ts";
import { passwordPolicyOf, type SessionPolicy, sessionPolicyOf } from "../auth/organization-policies.ts";
import type { Queries } from "../db/database.ts";

/** An organization with the policies that it set for itself. */
export interface OwnPolicies {
  readonly id: string;
  readonly name: string;
  readonly passwordPolicy: PasswordPolicy;
  readonly sessionPolicy: SessionPolicy;
}

export async function readOwnPolicies(queries: Queries, id: string): Promise<OwnPolicies> {
  const [row] = await queries.query<{ name: string; password_policy: object; session_policy: object }>(
    "select name, password_policy, session_policy from organization where id = $1",
    [id],
  );
  if (row === undefined) throw new Error("there is no such organization");
  return {
    id,
    name: row.name,
    passwordPolicy: passwordPolicyOf(row.password_policy),
    sessionPolicy: sessionPolicyOf(row.session_policy),
  };
}
