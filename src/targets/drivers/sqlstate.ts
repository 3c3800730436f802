/** Names that PostgreSQL gives to codes (appendix A), of those that are met here. */
const names: Readonly<Record<string, string>> = {
  "22023": "invalid_parameter_value",
  "25006": "read_only_sql_transaction",
  "28000": "invalid_authorization_specification",
  "28P01": "invalid_password",
  "3D000": "invalid_catalog_name",
  "42501": "insufficient_privilege",
  "42704": "undefined_object",
  "53300": "too_many_connections",
  "55P03": "lock_not_available",
  "57014": "query_canceled",
  "57P01": "admin_shutdown",
  "57P03": "cannot_connect_now",
};

/** Of what is asked, not of how the server is: features, data, logins, databases, privileges and names. */
const permanentClasses: ReadonlySet<string> = new Set(["0A", "22", "28", "3D", "42"]);

/** Ends of connections and failures of the system, which may follow upon a commit. */
const uncertain = /^(08|57P|58|F0|XX)/;

/** The condition's name for people, or else its code. */
export function conditionOf(code: string | undefined): string {
  if (code === undefined || !/^[0-9A-Z]{5}$/.test(code)) return "no SQLSTATE";
  return names[code] ?? `SQLSTATE ${code}`;
}

/** Whether waiting does not mend it. */
export const isPermanent = (code: string | undefined): boolean => permanentClasses.has(code?.slice(0, 2) ?? "");

/** Whether a statement that was answered so has certainly changed nothing. */
export const hasNoEffect = (code: string | undefined): boolean => code !== undefined && !uncertain.test(code);
