/** A table of keys that the master key wraps, each bound to its place. */
export interface WrappedKeys {
  readonly table: string;
  /** The column that names a key, its type, and a value below all others. */
  readonly id: string;
  readonly type: string;
  readonly lowest: string;
  place(id: string): string;
}

/** One for each organization. */
export const organizationKeys: WrappedKeys = {
  table: "organization_key",
  id: "organization_id",
  type: "uuid",
  lowest: "00000000-0000-0000-0000-000000000000",
  place: (organizationId) => `holdfast/v1|organization-key|${organizationId}`,
};

/** Those of the installation itself, without which no server starts. */
export const serviceKeys: WrappedKeys = {
  table: "service_key",
  id: "name",
  type: "text",
  lowest: "",
  place: (name) => `holdfast/v1|service-key|${name}`,
};
