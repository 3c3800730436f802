import { SessionService } from "../../../gen/ts/holdfast/auth/v1/session_service_pb.ts";
import * as client from "../../client/login.ts";
import type { Token } from "../../client/token.ts";
import { lackingIn, type PasswordPolicy } from "../../standards/password-policy.ts";
import { askHidden, readLines } from "../ask.ts";
import { credentialsPath, readCredentials, removeCredentials, writeCredentials } from "../credentials-file.ts";
import { explain } from "../explain.ts";
import { exitCodes, Failure, usage } from "../failure.ts";
import { note } from "../output.ts";
import { anonymous, authorized, hasCredentialInEnvironment, openSession, urlFor } from "../session.ts";
import { setting } from "../settings.ts";

interface ServerOptions {
  readonly url?: string;
}
export interface LoginOptions extends ServerOptions {
  readonly username?: string;
  readonly passwordStdin?: boolean;
  readonly clientId?: string;
  readonly clientSecretStdin?: boolean;
}
export interface EnrollOptions extends ServerOptions {
  readonly username: string;
  readonly stdin?: boolean;
}
export interface PasswordOptions extends ServerOptions {
  readonly username?: string;
  readonly stdin?: boolean;
}

/**
 * The server cannot see how long a password is, and whoever steals its database can try short ones. An organization may
 * ask for more, and for less only by a maximum.
 */
const shortestPassword = 12;

/** Logs in and keeps the token in the credentials file. */
export async function login(options: LoginOptions): Promise<void> {
  const url = urlFor(options.url);
  const { username, clientId = setting("CLIENT_ID") } = options;
  if (username !== undefined && options.clientId !== undefined)
    throw usage("--username and --client-id exclude each other");
  if (username !== undefined) keep(url, await loginAsUser(url, username, options));
  else if (clientId !== undefined) keep(url, await loginAsMachine(url, clientId, options));
  else throw usage("who logs in? say --username or --client-id");
  note(`logged in at ${url} as ${username ?? clientId}`);
  if (hasCredentialInEnvironment()) note("the credential in the environment is used instead, until it is unset");
}

async function loginAsUser(url: string, username: string, { passwordStdin }: LoginOptions): Promise<Token> {
  const password = passwordStdin
    ? await readLine("the password")
    : await askHidden("Password:", "give the password with --password-stdin");
  return client.loginWithPassword(anonymous(url), username, password);
}

async function loginAsMachine(url: string, clientId: string, { clientSecretStdin }: LoginOptions): Promise<Token> {
  const secret = clientSecretStdin
    ? await readLine("the client secret")
    : (setting("CLIENT_SECRET") ??
      (await askHidden("Client secret:", "give the client secret with --client-secret-stdin")));
  return client.loginWithClientSecret(anonymous(url), clientId, secret);
}

const readLine = async (name: string): Promise<string> => (await readLines(name))[0] ?? "";

const keep = (url: string, { token, expiresAt }: Token) =>
  writeCredentials({ url, token, expires_at: expiresAt.toISOString() });

/** Sets the first password of a user. */
export async function enroll({ username, url: at, stdin }: EnrollOptions): Promise<void> {
  const url = urlFor(at);
  const [enrollmentToken = "", given] = stdin
    ? await readLines("the enrollment token", "the password")
    : [await askHidden("Enrollment token:", stdinWay)];
  const api = anonymous(url);
  const policy = await client.policyForEnrollment(api, username, enrollmentToken);
  const password = given ?? (await askNewPassword(policy));
  refuseWeak(password, policy);
  await client.enroll(api, username, enrollmentToken, password);
  note(`the password is set; log in with: holdfast login --url ${url} --username ${username}`);
}

/** Changes a password: logs in with the present one, and keeps that login, since all others end. */
export async function changePassword(options: PasswordOptions): Promise<void> {
  const url = urlFor(options.url);
  const username = options.username ?? (await openSession()(SessionService).whoAmI({})).name;
  const [present = "", given] = options.stdin
    ? await readLines("the present password", "the new password")
    : [await askHidden("Present password:", stdinWay)];
  const token = await client.loginWithPassword(anonymous(url), username, present);
  const api = authorized(url, token.token);
  const policy = await client.policyOfOrganization(api);
  const fresh = given ?? (await askNewPassword(policy));
  refuseWeak(fresh, policy);
  await client.changePassword(api, username, fresh);
  keep(url, token);
  note("the password is changed; other logins of yours have ended");
}

const stdinWay = "give both on standard input with --stdin";

async function askNewPassword(policy: PasswordPolicy): Promise<string> {
  const password = await askHidden("New password:", stdinWay);
  refuseWeak(password, policy);
  if ((await askHidden("The same again:", stdinWay)) !== password) throw usage("the two passwords differ");
  return password;
}

function refuseWeak(password: string, policy: PasswordPolicy): void {
  const minLength = Math.max(policy.minLength, Math.min(shortestPassword, policy.maxLength));
  const lacking = lackingIn(password, { ...policy, minLength });
  if (lacking.length === 0) return;
  throw usage(`a password needs ${lacking.join(", and ")}`, [
    "the server never sees it, and whoever steals its database can try all weak ones",
  ]);
}

/** Ends the token at the server and here; here in any case. */
export async function logout(): Promise<void> {
  const stored = readCredentials();
  if (stored === undefined) return note("nobody is logged in");
  removeCredentials();
  try {
    await authorized(stored.url, stored.token)(SessionService).logout({});
  } catch (error) {
    const { lines, exitCode } = explain(error);
    // A token that the server refuses has ended already.
    if (exitCode !== exitCodes.authentication)
      throw new Failure("unavailable", `the token is removed here, but ends only at ${stored.expires_at}`, lines);
  }
  note(`logged out; ${credentialsPath()} is removed`);
}
