/** Every permission there is (spec "Required permissions", gaps section 18). */
export const permissions = [
  "secret:read",
  "secret:write",
  "secret:delete",
  "secret:archive",
  "secret:permanent_delete",
  "rotation:read",
  "rotation:write",
  "rotation:execute",
  "keytab:read",
  "keytab:write",
  "keytab:delete",
  "keytab:download",
  "cipher_policy:read",
  "cipher_policy:write",
  "certificate:read",
  "certificate:issue",
  "certificate:revoke",
  "ca:write",
  "governance:read",
  "governance:write",
  "audit:read",
  "system:read",
  "agent:read",
  "agent:write",
  "project:read",
  "project:write",
  "organization:write",
  "identity:read",
  "identity:write",
  "role:write",
  "api_token:admin",
  "webhook:read",
  "webhook:write",
  "agent:report",
  "gateway:connect",
] as const;

const vocabulary: ReadonlySet<string> = new Set(permissions);

export const isPermission = (text: string): boolean => vocabulary.has(text);

const machinePermissions = ["agent:report", "gateway:connect"];

/** What each built-in role holds; gateway:admin holds nothing, it is itself asked for. */
export const builtInRoles: Readonly<Record<string, readonly string[]>> = {
  admin: permissions.filter((permission) => !machinePermissions.includes(permission)),
  "gateway:admin": [],
  editor: [
    "secret:read",
    "secret:write",
    "secret:delete",
    "secret:archive",
    "rotation:read",
    "rotation:write",
    "rotation:execute",
    "keytab:read",
    "keytab:write",
    "certificate:read",
    "certificate:issue",
    "cipher_policy:read",
    "project:read",
  ],
  viewer: ["secret:read", "rotation:read", "keytab:read", "cipher_policy:read", "certificate:read", "project:read"],
  auditor: [
    "audit:read",
    "governance:read",
    "keytab:read",
    "cipher_policy:read",
    "certificate:read",
    "rotation:read",
    "project:read",
  ],
  agent: ["agent:report"],
  gateway: ["gateway:connect"],
};

/** The permissions that a built-in role holds; undefined when there is no such role. */
export function permissionsOf(role: string): readonly string[] | undefined {
  return Object.hasOwn(builtInRoles, role) ? builtInRoles[role] : undefined;
}
