import { EngineError } from "../engines/engines.ts";
import { ConfigError } from "./config.ts";
import { isDatabaseAway, Refusal } from "./errors.ts";

/** What kept the server from starting, as one line that says what to do; a fault of ours comes with its stack. */
export function explainStart(error: unknown): string {
  if (error instanceof ConfigError || error instanceof EngineError) return error.message;
  // The first organization is made as a call would make it.
  if (error instanceof Refusal && error.cause instanceof ConfigError) return error.cause.message;
  const { code, message, port, syscall, stack } = error as NodeJS.ErrnoException & { port?: number };
  if (syscall === "listen") return explainListen(code, port) ?? message;
  if (code === "28P01" || code === "28000")
    return "SERVICE_DATABASE_URL: the database refuses the user or the password";
  if (code === "3D000") return "SERVICE_DATABASE_URL: there is no such database; create it first";
  if (code === "42501") return "SERVICE_DATABASE_URL: the user may not create tables in this database";
  if (syscall === "connect" || syscall === "getaddrinfo" || isDatabaseAway(error))
    return `SERVICE_DATABASE_URL: the database cannot be reached (${code ?? message})`;
  return stack ?? message;
}

function explainListen(code: string | undefined, port: number | undefined): string | undefined {
  if (code === "EADDRINUSE")
    return `port ${port} is in use; stop what listens there, or set SERVICE_PORT or SERVICE_OCSP_PORT`;
  if (code === "EACCES") return `port ${port} may not be used by this user; set SERVICE_PORT above 1023`;
  if (code === "EADDRNOTAVAIL") return "SERVICE_HOST is not an address of this machine";
  return undefined;
}
