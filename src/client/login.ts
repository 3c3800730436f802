import { randomBytes } from "node:crypto";
import {
  type OrganizationPasswordPolicy,
  OrganizationService,
} from "../../gen/ts/holdfast/auth/v1/organization_service_pb.ts";
import { SrpService } from "../../gen/ts/holdfast/auth/v1/srp_service_pb.ts";
import { TokenService } from "../../gen/ts/holdfast/auth/v1/token_service_pb.ts";
import type { PasswordPolicy } from "../standards/password-policy.ts";
import {
  clientKeys,
  rfc5054Group3072 as group,
  isSameProof,
  proveLogin,
  saltLength,
  verifierFor,
} from "../standards/srp.ts";
import type { Api } from "./api.ts";
import { type Token, tokenOf } from "./token.ts";

/** The other side knows no verifier of the password: it is not the server that the password was set at. */
export class UnprovenServer extends Error {}

/** Exchanges the credentials of a machine identity for a token. */
export async function loginWithClientSecret(api: Api, clientId: string, clientSecret: string): Promise<Token> {
  return tokenOf(await api(TokenService).loginUniversal({ clientId, clientSecret }));
}

/** Logs a user in without sending the password (gaps G-9.1). Throws UnprovenServer, and keeps no token of such a server. */
export async function loginWithPassword(api: Api, user: string, password: string): Promise<Token> {
  const srp = api(SrpService);
  const username = user.toLowerCase();
  const { salt, serverPublicKey } = await srp.initSrp({ username });
  const keys = clientKeys(group);
  const { clientProof, serverProof } = await proveLogin({ group, username, password, salt, keys, serverPublicKey });
  const answer = await srp.verifySrp({ username, clientPublicKey: keys.publicKey, clientProof });
  if (!isSameProof(answer.serverProof, serverProof)) throw new UnprovenServer("the server's proof is wrong");
  return tokenOf(answer);
}

/** What is required of the password that a user may set with this token. */
export async function policyForEnrollment(
  api: Api,
  username: string,
  enrollmentToken: string,
): Promise<PasswordPolicy> {
  const { passwordPolicy } = await api(SrpService).getEnrollment({ username, enrollmentToken });
  return policyOf(passwordPolicy);
}

/** What is required of passwords in the organization of whom `api` stands for. */
export async function policyOfOrganization(api: Api): Promise<PasswordPolicy> {
  const { data } = await api(OrganizationService).listOrganizations({});
  return policyOf(data[0]?.passwordPolicy);
}

/** Sets the first password of a user, or a new one after a reset. */
export async function enroll(api: Api, user: string, enrollmentToken: string, password: string): Promise<void> {
  const username = user.toLowerCase();
  await api(SrpService).enrollSrp({ username, enrollmentToken, ...(await verifierOf(username, password)) });
}

/** Replaces the password of the user whom `api` stands for; the token must be younger than five minutes. */
export async function changePassword(api: Api, user: string, password: string): Promise<void> {
  await api(SrpService).changePassword(await verifierOf(user.toLowerCase(), password));
}

/** What an answer leaves out is not required. */
const policyOf = (answer: Partial<OrganizationPasswordPolicy> = {}): PasswordPolicy => ({
  minLength: answer.minLength ?? 0,
  maxLength: answer.maxLength ?? Number.POSITIVE_INFINITY,
  requireUppercase: answer.requireUppercase ?? false,
  requireLowercase: answer.requireLowercase ?? false,
  requireNumbers: answer.requireNumbers ?? false,
  requireSpecial: answer.requireSpecial ?? false,
});

async function verifierOf(username: string, password: string) {
  const salt = randomBytes(saltLength);
  return { salt, verifier: await verifierFor(group, salt, username, password) };
}
