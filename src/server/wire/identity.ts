/** What a request was made with. */
export interface Credential {
  readonly type: "access_token" | "api_token" | "session";
  /** The jti of an access token, or the id of the API token or the session. */
  readonly id: string;
  /** When somebody last proved who they are for it. */
  readonly authenticatedAt: Date;
  /** When it ends by itself; undefined means never. */
  readonly expiresAt: Date | undefined;
  /** What a request that comes with a session's cookie must carry in X-CSRF-Token when it changes something. */
  readonly csrfToken?: string;
  /** An API token's own limits, which what is made with it inherits. */
  readonly restriction?: Restriction;
}

/** What an API token leaves of its owner's permissions; an empty list restricts nothing. */
export interface Restriction {
  readonly permissions: readonly string[];
  readonly projectIds: readonly string[];
}

/** Who calls, and what they hold at this moment. */
export interface Identity {
  readonly id: string;
  readonly type: "user" | "machine_identity";
  readonly name: string;
  readonly organizationId: string;
  /** Logins and sessions that carry another number have ended. */
  readonly credentialVersion: number;
  /** The organization made at the first start, which may create others. */
  readonly ofInstance: boolean;
  readonly roles: ReadonlySet<string>;
  /** Held at the organization, and so in all of its projects. */
  readonly permissions: ReadonlySet<string>;
  /** Held in single projects, by project id. */
  readonly projectPermissions: ReadonlyMap<string, ReadonlySet<string>>;
  /** Replaces the installation's limit of API calls. */
  readonly rateLimitPerMinute: number | undefined;
  /** Undefined for who is only just logging in. */
  readonly credential: Credential | undefined;
  /** Whether the credential may be used from this address. */
  admits(address: string): boolean;
}

/** Where a request may carry a credential. */
export interface Presented {
  /** The value behind "Bearer". */
  readonly bearer?: string;
  /** The value of the session's cookie. */
  readonly cookie?: string;
}

/** Finds the identity behind a credential. Throws AUTH_EXPIRED or AUTH_INVALID. */
export type Authenticate = (presented: Presented) => Promise<Identity>;
