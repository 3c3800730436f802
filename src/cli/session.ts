import { type Api, connectApi } from "../client/api.ts";
import { KeptToken } from "../client/kept-token.ts";
import { loginWithClientSecret } from "../client/login.ts";
import { version } from "../version.ts";
import { credentialsPath, readCredentials } from "./credentials-file.ts";
import { Failure, usage } from "./failure.ts";
import { certificateAuthorities, serverUrl, setting } from "./settings.ts";

/** A server that is called without a credential, as when logging in. */
export const anonymous = (url: string): Api => connect(url);

/** A server that is called with this token. */
export const authorized = (url: string, token: string): Api => connect(url, async () => token);

/**
 * The server as the environment and the last login say: HOLDFAST_TOKEN first, then HOLDFAST_CLIENT_ID with
 * HOLDFAST_CLIENT_SECRET, then the credentials file. Calls nobody yet. Throws a Failure when nobody is logged in.
 */
export function openSession(): Api {
  if (!hasCredentialInEnvironment()) return storedSession();
  // It goes to the server of the environment, and not to one that somebody once logged in to.
  const url = setting("URL");
  if (url === undefined) throw usage("HOLDFAST_URL must say which server the credential in the environment is for");
  return sessionOfEnvironment(serverUrl(url));
}

export const hasCredentialInEnvironment = (): boolean =>
  setting("TOKEN") !== undefined || (setting("CLIENT_ID") !== undefined && setting("CLIENT_SECRET") !== undefined);

function sessionOfEnvironment(url: string): Api {
  const token = setting("TOKEN");
  if (token !== undefined) return authorized(url, token);
  const [clientId = "", clientSecret = ""] = [setting("CLIENT_ID"), setting("CLIENT_SECRET")];
  const login = () => loginWithClientSecret(anonymous(url), clientId, clientSecret);
  const kept = new KeptToken();
  return connect(url, () => kept.get(login));
}

/** The server of a login: as given, as the environment says, or as the last time. */
export function urlFor(given?: string): string {
  const url = given ?? setting("URL") ?? readCredentials()?.url;
  if (url === undefined) throw usage("which server? name it with --url or HOLDFAST_URL");
  return serverUrl(url);
}

function storedSession(): Api {
  const stored = readCredentials();
  if (stored === undefined) {
    throw new Failure("authentication", "nobody is logged in", [
      "log in with holdfast login, or set HOLDFAST_TOKEN, or HOLDFAST_CLIENT_ID and HOLDFAST_CLIENT_SECRET",
    ]);
  }
  const url = setting("URL");
  if (url !== undefined && serverUrl(url) !== stored.url) {
    throw new Failure("authentication", `the login in ${credentialsPath()} is for ${stored.url}, not for ${url}`, [
      "log in there with holdfast login, or unset HOLDFAST_URL",
    ]);
  }
  if (Date.parse(stored.expires_at) <= Date.now()) {
    throw new Failure("authentication", "the login has expired", ["log in again with: holdfast login"]);
  }
  return authorized(stored.url, stored.token);
}

function connect(url: string, token?: () => Promise<string>): Api {
  const authorities = certificateAuthorities();
  return connectApi({
    url,
    userAgent: `holdfast-cli/${version}`,
    ...(token && { token }),
    ...(authorities !== undefined && { certificateAuthorities: authorities }),
    onLimit: (waitMs) =>
      process.stderr.write(`holdfast: the limit of requests is reached; going on in ${Math.ceil(waitMs / 1000)} s\n`),
  });
}
