import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import { errors, jwtVerify, SignJWT } from "jose";
import { LRUCache } from "lru-cache";
import { authExpired, authInvalid } from "../errors.ts";
import type { Seal } from "../seal/seal.ts";

const audience = "holdfast";
const algorithm = "EdDSA";

/** What an access token says (G-9.5). Permissions are not in it: they are looked up when it is used. */
export interface Claims {
  /** Identity id. */
  readonly sub: string;
  readonly sub_type: "user" | "machine_identity";
  readonly org_id: string;
  readonly roles: readonly string[];
  readonly amr: readonly string[];
}

interface Verified {
  readonly claims: Claims;
  readonly expiresAtMs: number;
}

/** Issues and verifies access tokens: JWTs signed with Ed25519 (RFC 7519, RFC 8037), with one key for all replicas. */
export class AccessTokens {
  readonly #issuer: string;
  readonly #privateKey: KeyObject;
  readonly #publicKey: KeyObject;
  // Verifying costs 80 µs; a token that was verified once stays good until it expires.
  readonly #verified = new LRUCache<string, Verified>({ max: 10_000 });

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

  /** Throws AUTH_EXPIRED from the second of `exp` on (G-9.6), and AUTH_INVALID for anything else that is wrong. */
  async verify(token: string): Promise<Claims> {
    const known = this.#verified.get(token);
    if (known !== undefined) {
      if (Date.now() >= known.expiresAtMs) throw authExpired();
      return known.claims;
    }
    const options = {
      issuer: this.#issuer,
      audience,
      algorithms: [algorithm],
      clockTolerance: 0,
      requiredClaims: ["sub", "exp", "jti"],
    };
    const { payload } = await jwtVerify<Claims>(token, this.#publicKey, options).catch((error: unknown) => {
      throw error instanceof errors.JWTExpired ? authExpired() : authInvalid();
    });
    const expiresAtMs = (payload.exp ?? 0) * 1000;
    if (Date.now() >= expiresAtMs) throw authExpired();
    const { sub, sub_type, org_id, roles, amr } = payload;
    const claims = { sub: sub ?? "", sub_type, org_id, roles, amr };
    this.#verified.set(token, { claims, expiresAtMs });
    return claims;
  }
}
