/** Who calls, and what they hold at this moment. */
export interface Identity {
  readonly id: string;
  readonly type: "user" | "machine_identity";
  readonly name: string;
  readonly organizationId: string;
  /** The organization made at the first start, which may create others. */
  readonly ofInstance: boolean;
  readonly roles: ReadonlySet<string>;
  /** Held at the organization, and so in all of its projects. */
  readonly permissions: ReadonlySet<string>;
  /** Held in single projects, by project id. */
  readonly projectPermissions: ReadonlyMap<string, ReadonlySet<string>>;
  /** Replaces the installation's limit of API calls. */
  readonly rateLimitPerMinute: number | undefined;
  /** Whether the credential may be used from this address. */
  admits(address: string): boolean;
}

/** Finds the identity behind a bearer token. Throws AUTH_EXPIRED or AUTH_INVALID. */
export type Authenticate = (token: string) => Promise<Identity>;
