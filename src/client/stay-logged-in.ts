import { type ServiceError, status } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { GrpcConnection } from "./grpc-connection.ts";
import type { GrpcEndpoint } from "./grpc-endpoint.ts";
import { KeptToken } from "./kept-token.ts";
import { loginOverGrpc } from "./login-over-grpc.ts";
import type { MachineCredentials } from "./machine-settings.ts";
import { CredentialRefused, isRefusal, stayConnected } from "./stay-connected.ts";

/** A connection over which the server knows who calls. */
export interface LoggedIn {
  readonly connection: GrpcConnection;
  readonly token: () => Promise<string>;
  /** To be called when the server serves it. */
  readonly welcomed: () => void;
}

interface StayLoggedInOptions {
  /** What the program is, as in "agent". */
  readonly noun: string;
  readonly userAgent: string;
  /** Replicas of one server. */
  readonly endpoints: readonly GrpcEndpoint[];
  /** Who it is; asked for with each connection. */
  readonly credentials: (connection: GrpcConnection) => MachineCredentials | Promise<MachineCredentials>;
  /** What is done with a connection until it fails. */
  readonly serve: (session: LoggedIn) => Promise<void>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Serves a server as a machine identity, over connections one after the other, until `signal` is aborted. Why there is
 * none is logged, once for each server and reason.
 */
export async function stayLoggedIn(options: StayLoggedInOptions): Promise<void> {
  const { noun, userAgent, endpoints, credentials, serve, logger, signal } = options;
  const kept = new KeptToken();
  /** By server: the fault that was told last, which is not told again. */
  const told = new Map<string, string>();
  await stayConnected({
    endpoints,
    userAgent,
    signal,
    work: async (connection, welcomed) => {
      const { clientId, clientSecret } = await credentials(connection);
      const token = () => kept.get(() => loginOverGrpc(connection, clientId, clientSecret()));
      await token();
      const session = {
        connection,
        token,
        welcomed: () => {
          told.clear();
          logger.info({ server: connection.endpoint.url }, "connected");
          welcomed();
        },
      };
      await serve(session).catch((error: ServiceError) => {
        // It ended, or was revoked: the next connection begins with a login.
        if (error.code === status.UNAUTHENTICATED) kept.discard();
        throw error;
      });
    },
    onFault: (fault, { url: server }, waitMs) => {
      const { details, message = "the server ended the connection" } = (fault ?? {}) as Partial<ServiceError>;
      const reason = (details || message).replace(/\.? Resolution note: $/, "");
      if (reason === told.get(server)) return;
      told.set(server, reason);
      const about = { server, reason, next_try_in_seconds: Math.ceil(waitMs / 1000) };
      const refusal = refusalOf(fault, noun);
      if (refusal === undefined) logger.warn(about, "not connected");
      else logger.error(about, refusal);
    },
  });
}

/** What somebody must do something about. */
function refusalOf(fault: unknown, noun: string): string | undefined {
  if (fault instanceof CredentialRefused) return `the server refuses the credentials of this ${noun}`;
  if ((fault as Partial<ServiceError> | undefined)?.code === status.PERMISSION_DENIED)
    return `the server has stopped this ${noun}`;
  return isRefusal(fault) ? `the server refuses this ${noun}` : undefined;
}
