import type { KeyObject } from "node:crypto";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/auth/v1/srp_service_pb.ts";
import {
  rfc5054Group3072 as group,
  IllegalParameter,
  isVerifier,
  serverKeys,
  verifyLogin,
} from "../../standards/srp.ts";
import type { Config } from "../config.ts";
import { run } from "../db/database.ts";
import { authExpired, authInvalid, invalidField, notFound, Refusal } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { type AccessTokens, claimsOf } from "./access-tokens.ts";
import type { Authenticator } from "./authenticator.ts";
import type { FailedLogins } from "./failed-logins.ts";
import { hashOf } from "./generated-credentials.ts";
import { readHolder } from "./identities.ts";
import { passwordPolicyOf } from "./organization-policies.ts";
import type { SrpAccount, SrpAccounts } from "./srp-accounts.ts";
import type { SrpHandshakes } from "./srp-handshakes.ts";
import { opensslPower } from "./srp-power.ts";

/** A change of password takes a login younger than this (G-9.4). */
const freshMs = 5 * 60_000;

const parameters = {
  group: group.name,
  prime: group.prime.toString(16),
  generator: Number(group.generator),
  hash: group.hash,
  padBytes: group.length,
  encoding: "base64",
  username: "lower-case",
  formulas: {
    k: "H(N | PAD(g))",
    x: 'H(salt | H(username | ":" | password))',
    verifier: "g^x mod N",
    u: "H(PAD(A) | PAD(B))",
    sessionKey: "H(PAD(S))",
    clientProof: "H((H(N) xor H(g)) | H(username) | salt | PAD(A) | PAD(B) | K)",
    serverProof: "H(PAD(A) | M1 | K)",
  },
};

interface SrpServiceOptions {
  readonly config: Config;
  readonly accessTokens: AccessTokens;
  readonly authenticator: Authenticator;
  readonly accounts: SrpAccounts;
  readonly handshakes: SrpHandshakes;
  readonly failedLogins: FailedLogins;
  readonly pepper: KeyObject;
}

/** The methods of srp_service.proto. */
export class SrpService implements ServiceImpl<typeof pb.SrpService> {
  readonly #options: SrpServiceOptions;

  constructor(options: SrpServiceOptions) {
    this.#options = options;
  }

  getSrpParameters() {
    return parameters;
  }

  async initSrp(request: pb.InitSrpRequest, context: HandlerContext) {
    const { accounts, handshakes } = this.#options;
    const username = request.username.toLowerCase();
    const { salt, verifier } = await accounts.find(callOf(context), username);
    const keys = await serverKeys(group, verifier, opensslPower);
    await handshakes.open(username, keys);
    return { salt, serverPublicKey: keys.publicKey };
  }

  verifySrp(request: pb.VerifySrpRequest, context: HandlerContext) {
    const username = request.username.toLowerCase();
    const call = callOf(context);
    const login = () => this.#login(call, username, request);
    return this.#options.failedLogins.guard(`user:${username}`, "username or password is wrong", login);
  }

  async getEnrollment(request: pb.GetEnrollmentRequest, context: HandlerContext) {
    const call = callOf(context);
    const username = request.username.toLowerCase();
    const { organizationId } = await this.#findEnrolling(call, username, request.enrollmentToken);
    const [organization] = await call.query<{ password_policy: object }>(
      "select password_policy from organization where id = $1",
      [organizationId],
    );
    return { username, passwordPolicy: passwordPolicyOf(organization?.password_policy ?? {}) };
  }

  async enrollSrp(request: pb.EnrollSrpRequest, context: HandlerContext) {
    const call = callOf(context);
    const username = request.username.toLowerCase();
    checkVerifier(request.verifier);
    const user = await this.#findEnrolling(call, username, request.enrollmentToken);
    await this.#options.accounts.setVerifier(call, user, request);
    await this.#options.authenticator.forget(call, [user.id]);
    call.identity = await readHolder(call, user.id);
    return { username };
  }

  async changePassword(request: pb.ChangePasswordRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id, type, name, organizationId, credential } = call.caller;
    call.about({ id, name });
    if (type !== "user") throw notFound("user");
    checkVerifier(request.verifier);
    const isLogin = credential !== undefined && credential.type !== "api_token";
    if (!isLogin || call.now.getTime() - credential.authenticatedAt.getTime() > freshMs) {
      throw new Refusal("PERMISSION_DENIED", "a change of password takes a login of the last five minutes");
    }
    await lockStanding(call, credential.id);
    await this.#options.accounts.setVerifier(call, { id, organizationId }, request, credential.id);
    await this.#options.authenticator.forget(call, [id]);
    return { username: name };
  }

  async #login(call: Call, username: string, request: pb.VerifySrpRequest) {
    const { accounts, accessTokens, config } = this.#options;
    call.action = "auth.login_failed";
    const account = await accounts.find(call, username);
    call.organizationId = account.organizationId;
    call.about(account.id === undefined ? { type: "user" } : { type: "user", id: account.id, name: username });
    const serverProof = await this.#prove(account, username, request);
    // Read only now: a statement more for users that exist would tell who does.
    const isProven = serverProof !== undefined && account.id !== undefined;
    const holder = isProven ? await readHolder(call, account.id) : undefined;
    // With another number the password was replaced while it was proven.
    const isStanding = holder?.active === true && holder.credentialVersion === account.credentialVersion;
    if (serverProof === undefined || !isStanding) return undefined;
    await run(call.em, "update user_account set last_authenticated_at = now() where id = $1 and organization_id = $2", [
      holder.id,
      holder.organizationId,
    ]);
    call.identity = holder;
    call.action = "auth.login";
    const ttlSeconds = config.ACCESS_TOKEN_TTL_SECONDS;
    const accessToken = await accessTokens.issue(claimsOf(holder, "srp"), ttlSeconds, call.now);
    return { accessToken, tokenType: "Bearer", expiresIn: ttlSeconds, serverProof };
  }

  /** The server's proof, once: a handshake is used up by the proof that fits it, and the newest one by a proof that fits none. */
  async #prove(
    { salt, verifier }: SrpAccount,
    username: string,
    { clientPublicKey, clientProof }: pb.VerifySrpRequest,
  ): Promise<Uint8Array | undefined> {
    const { handshakes } = this.#options;
    const open = await handshakes.list(username);
    for (const handshake of open) {
      const { keys } = handshake;
      const login = { group, username, salt, verifier, keys, clientPublicKey, clientProof };
      const serverProof = await verifyLogin(login, opensslPower).catch(whenIllegal);
      if (serverProof !== undefined) return (await handshakes.take(username, handshake)) ? serverProof : undefined;
    }
    const [newest] = open;
    if (newest !== undefined) await handshakes.take(username, newest);
    return undefined;
  }

  /** Locked in a call that changes something: a token is used once. */
  async #findEnrolling(call: Call, username: string, token: string) {
    const [user] = await call.query<{ id: string; organization_id: string; expired: boolean }>(
      `select id, organization_id, enrollment_expires_at <= now() as expired from user_account
       where username = $1 and enrollment_token_hash = $2 and status <> 'disabled'${call.policy?.readOnly ? "" : " for update"}`,
      [username, hashOf(this.#options.pepper, token)],
    );
    if (user === undefined) {
      await noteWhose(call, username);
      throw authInvalid("username or enrollment token is wrong");
    }
    const { id, organization_id: organizationId } = user;
    call.organizationId = organizationId;
    call.about({ type: "user", id, name: username });
    if (user.expired) throw authExpired("the enrollment token has expired");
    return { id, organizationId };
  }
}

/** A failed attempt is recorded with the user it was for or, when nobody has the name, in the first organization. */
async function noteWhose(call: Call, username: string): Promise<void> {
  const [whose] = await call.query<{ organization_id: string; id: string | null }>(
    `select coalesce(u.organization_id, o.id) as organization_id, u.id
     from organization o left join user_account u on u.username = $1 where o.instance`,
    [username],
  );
  call.organizationId = whose?.organization_id;
  call.about(whose?.id ? { type: "user", id: whose.id, name: username } : { type: "user" });
}

/** Locks the user, who may have been disabled or have changed the password elsewhere since the call was admitted. */
async function lockStanding({ em, caller }: Call, credentialId: string): Promise<void> {
  const standing = await run(
    em,
    `select 1 from user_account where id = $1 and organization_id = $2 and status = 'active'
       and (credential_version = $3 or surviving_credential = $4) for update`,
    [caller.id, caller.organizationId, caller.credentialVersion, credentialId],
  );
  if (standing.length === 0) throw authInvalid();
}

/** A public key that makes a power impossible fails like a wrong proof. */
function whenIllegal(error: unknown): undefined {
  if (!(error instanceof IllegalParameter)) throw error;
}

function checkVerifier(verifier: Uint8Array): void {
  if (!isVerifier(group, verifier)) throw invalidField("verifier", "must be greater than 1 and less than N - 1");
}
