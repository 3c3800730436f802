import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import { errors, jwtVerify, SignJWT } from "jose";
import { LRUCache } from "lru-cache";
import { authExpired, authInvalid } from "../errors.ts";
import type { Seal } from "../seal/seal.ts";
import type { Holder } from "./identities.ts";

const audience = "holdfast";
const algorithm = "EdDSA";

/** What an access token says of its identity (G-9.5). Permissions are not in it: they are looked up when it is used. */
export interface Claims {
  /** Identity id. */
  readonly sub: string;
  readonly sub_type: "user" | "machine_identity";
  readonly org_id: string;
  readonly roles: readonly string[];
  /** How the identity proved itself: srp or client_secret. */
  readonly amr: readonly string[];
  /** The identity's number at that time: another one there ends the token. */
  readonly credential_version: number;
}

/** What a token says of who has just logged in. */
export const claimsOf = (
  { id, type, organizationId, roles, credentialVersion }: Holder,
  method: "srp" | "client_secret",
): Claims => ({
  sub: id,
  sub_type: type,
  org_id: organizationId,
  roles: [...roles],
  amr: [method],
  credential_version: credentialVersion,
});

/** A token that is genuine and not past its end. */
export interface VerifiedToken {
  readonly claims: Claims;
  readonly jti: string;
  readonly authenticatedAt: Date;
  readonly expiresAt: Date;
}

/** The payload of a token; those issued before identities had a number carry none. */
type Issued = Omit<Claims, "credential_version"> & { credential_version?: number; auth_time?: number };

/** A token may be used at once on a replica whose clock is a little behind that of the one which made it. */
const clockToleranceSeconds = 30;

/** Issues and verifies access tokens: JWTs signed with Ed25519 (RFC 7519, RFC 8037), with one key for all replicas. */
export class AccessTokens {
  readonly #issuer: string;
  readonly #privateKey: KeyObject;
  readonly #publicKey: KeyObject;
  // Verifying costs 80 µs; a token that was verified once stays good until it expires.
  readonly #verified = new LRUCache<string, VerifiedToken>({ max: 10_000 });

  private constructor(issuer: string, privateKey: KeyObject) {
    this.#issuer = issuer;
    this.#privateKey = privateKey;
    this.#publicKey = createPublicKey(privateKey);
  }

  static async open(seal: Seal, issuer: string): Promise<AccessTokens> {
    const pkcs8 = await seal.serviceKey("token-signing", () =>
      generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "der" }),
    );
    return new AccessTokens(issuer, createPrivateKey({ key: pkcs8, type: "pkcs8", format: "der" }));
  }

  issue(claims: Claims, ttlSeconds: number, now: Date): Promise<string> {
    const issuedAt = Math.floor(now.getTime() / 1000);
    return new SignJWT({ ...claims, auth_time: issuedAt })
      .setProtectedHeader({ alg: algorithm, typ: "JWT" })
      .setIssuer(this.#issuer)
      .setAudience(audience)
      .setJti(randomUUID())
      .setIssuedAt(issuedAt)
      .setNotBefore(issuedAt)
      .setExpirationTime(issuedAt + ttlSeconds)
      .sign(this.#privateKey);
  }

  /** Throws AUTH_EXPIRED from the second of `exp` on, without tolerance (G-9.6), and AUTH_INVALID for anything else that is wrong. */
  async verify(token: string): Promise<VerifiedToken> {
    const known = this.#verified.get(token);
    const verified = known ?? (await this.#verifySignature(token));
    if (Date.now() >= verified.expiresAt.getTime()) throw authExpired();
    if (known === undefined) this.#verified.set(token, verified);
    return verified;
  }

  async #verifySignature(token: string): Promise<VerifiedToken> {
    const options = {
      issuer: this.#issuer,
      audience,
      algorithms: [algorithm],
      clockTolerance: clockToleranceSeconds,
      requiredClaims: ["sub", "exp", "jti"],
    };
    const { payload } = await jwtVerify<Issued>(token, this.#publicKey, options).catch((error: unknown) => {
      throw error instanceof errors.JWTExpired ? authExpired() : authInvalid();
    });
    const { sub, sub_type, org_id, roles, amr, credential_version = 1, jti = "", exp = 0, auth_time = 0 } = payload;
    return {
      claims: { sub, sub_type, org_id, roles, amr, credential_version },
      jti,
      authenticatedAt: new Date(auth_time * 1000),
      expiresAt: new Date(exp * 1000),
    };
  }
}
