import { once } from "node:events";
import { isIP, type Socket } from "node:net";
import type { ConnectionOptions } from "node:tls";
import type { Outbound } from "../../outbound/outbound.ts";
import { untilAborted } from "../../outbound/until-aborted.ts";
import { notAnswered } from "../http-target.ts";
import { TargetError } from "../target-error.ts";
import type { ServerSettings } from "./database-settings.ts";
import type { Assignment, Permit } from "./driver.ts";
import { type Login, readLogin } from "./login-value.ts";

/** What a statement at the target may take there, which is less than we wait for its answer. */
export const statementSeconds = 8;

const sessionMs = 10_000;

/** The server does not let anybody in by that name and password. */
export class LoginRefused extends TargetError {
  constructor(username: string, reason: string) {
    super("refused", `the login of ${username} was refused (${reason})`, { permanent: true, unchanged: true });
  }
}

/**
 * Gives work with a server so long, and throws a TargetError when it takes longer. `changing` is to be called right before
 * what has effects.
 */
export async function inSession<T>(
  permit: Permit,
  work: (signal: AbortSignal, changing: () => void) => Promise<T>,
): Promise<T> {
  const timeout = AbortSignal.timeout(sessionMs);
  const signal = AbortSignal.any([permit.signal, timeout]);
  let unchanged = true;
  const changing = () => {
    permit.check();
    signal.throwIfAborted();
    unchanged = false;
  };
  try {
    return await untilAborted(signal, work(signal, changing));
  } catch (error) {
    permit.signal.throwIfAborted();
    if (!timeout.aborted) throw error;
    throw new TargetError("timed_out", `the database: no answer within ${sessionMs / 1000} s`, { unchanged });
  }
}

/** A connection over which nothing was said yet, which ends when the signal is aborted. Throws a TargetError. */
export async function connectTo(outbound: Outbound, settings: ServerSettings, signal: AbortSignal): Promise<Socket> {
  const { host, port } = settings;
  return await outbound.connect({ host, port, timeoutMs: sessionMs, signal }).catch(notAnswered("the database"));
}

/** What TLS is to be set up with; undefined for none. Only verify-full looks at the certificate, as with libpq. */
export function tlsOptionsOf(outbound: Outbound, settings: ServerSettings): ConnectionOptions | undefined {
  const { host, ssl_mode: sslMode, ca_certificate_pem: authorities } = settings;
  if (sslMode === "disable") return undefined;
  if (sslMode === "verify-full") return outbound.tlsTo(host, authorities ?? undefined);
  return { host, servername: isIP(host) === 0 ? host : "", rejectUnauthorized: false };
}

/** Waits for an event of a socket. Rejects also when it is closed before. */
export async function eventOf(socket: Socket, name: string): Promise<unknown[]> {
  const closed = new AbortController();
  if (socket.closed) closed.abort();
  const onClose = () => closed.abort();
  socket.once("close", onClose);
  try {
    return await once(socket, name, { signal: closed.signal });
  } finally {
    socket.off("close", onClose);
  }
}

/** Why there is no TLS; what waiting cannot mend unless the connection was cut. */
export function notSecured(code: string | undefined): TargetError {
  const isCut = code === undefined || /^(ABORT_ERR|ECONNRESET|EPIPE|ETIMEDOUT)$/.test(code);
  if (isCut) return connectionLost({ unchanged: true });
  return new TargetError("refused", `TLS with the database failed (${code})`, { permanent: true, unchanged: true });
}

/** The connection was cut; whether anything was changed is known to those who sent something. */
export const connectionLost = ({ unchanged }: { readonly unchanged: boolean }): TargetError =>
  new TargetError("unreachable", "the database: the connection was lost", { unchanged });

/** What the target may have by now, in the order to try: the value before, the new one, and those given up in between. */
export function knownPasswords({ previousValue, value, earlierCandidates }: Assignment): readonly string[] {
  const values = [...(previousValue === undefined ? [] : [previousValue]), value, ...earlierCandidates];
  return [...new Set(values.map((each) => readLogin(each).password))];
}

/** Does work as a user with the first password that is accepted. Throws a TargetError when none is. */
export async function withFirstAccepted<T>(
  username: string,
  passwords: readonly string[],
  work: (login: Login) => Promise<T>,
): Promise<T> {
  for (const password of passwords) {
    try {
      return await work({ username, password });
    } catch (error) {
      if (!(error instanceof LoginRefused)) throw error;
    }
  }
  throw new LoginRefused(username, "with every password that it may have");
}
