import type { Socket } from "node:net";
import { type ConnectionOptions, connect as tlsConnect } from "node:tls";
import pg from "pg";
import type { Outbound } from "../../outbound/outbound.ts";
import { TargetError } from "../target-error.ts";
import {
  connectionLost,
  connectTo,
  eventOf,
  LoginRefused,
  notSecured,
  statementSeconds,
  tlsOptionsOf,
} from "./database-session.ts";
import type { ServerSettings } from "./database-settings.ts";
import type { Login } from "./login-value.ts";
import { PostgresMessages } from "./postgres-messages.ts";
import { conditionOf, hasNoEffect, isPermanent } from "./sqlstate.ts";

export interface PostgresServer extends ServerSettings {
  readonly database: string;
}

/** Asks for TLS before anything else is said (PostgreSQL's message flow, SSL Session Encryption). */
const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

/** Of the versions before, the verifier of a password would become the password itself. */
const oldestMajor = 10;

/** Somebody logged in at a PostgreSQL. */
export interface PostgresConnection extends Disposable {
  /** Whether the server asked for the password: otherwise the login proves nothing. */
  readonly askedForPassword: boolean;
  /** Runs one statement. Throws a TargetError. */
  run(statement: string): Promise<void>;
}

/** Throws a TargetError, which is a LoginRefused where the server does not let in whoever has this name and password. */
export async function openPostgres(
  outbound: Outbound,
  server: PostgresServer,
  login: Login,
  signal: AbortSignal,
): Promise<PostgresConnection> {
  const socket = await connectTo(outbound, server, signal);
  try {
    const tls = tlsOptionsOf(outbound, server);
    const stream = tls === undefined ? socket : await startTls(socket, tls);
    return await logIn(contained(stream), server, login);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** TLS before the protocol's own client has read a byte, so that nothing said before can pass for said over TLS. */
async function startTls(socket: Socket, options: ConnectionOptions): Promise<Socket> {
  socket.write(sslRequest);
  const [answer] = await eventOf(socket, "data").catch(({ code }: NodeJS.ErrnoException) => {
    throw notSecured(code);
  });
  if ((answer as Buffer).toString("latin1") !== "S")
    throw new TargetError("refused", "the database offers no TLS", { permanent: true, unchanged: true });
  const secured = tlsConnect({ ...options, socket });
  secured.on("error", () => {});
  await eventOf(secured, "secureConnect").catch(({ code }: NodeJS.ErrnoException) => {
    throw notSecured(code);
  });
  return secured;
}

/**
 * Only what a server may say reaches the client, which would stumble or turn in circles over other things; what it throws
 * all the same ends the connection, and not this program.
 */
function contained(stream: Socket): Socket {
  const emit = stream.emit.bind(stream) as (...event: unknown[]) => boolean;
  const messages = new PostgresMessages();
  return Object.assign(stream, {
    emit(...event: unknown[]) {
      const [name, chunk] = event;
      if (name !== "data") return emit(...event);
      try {
        for (const message of messages.read(chunk as Buffer)) emit("data", message);
      } catch (error) {
        stream.destroy(error as Error);
      }
      return true;
    },
    // The client wants to connect by itself, and this is connected.
    connect() {
      process.nextTick(() => emit("connect"));
      return stream;
    },
  });
}

async function logIn(stream: Socket, server: PostgresServer, { username, password }: Login) {
  const { host, port, database, ssl_mode: sslMode } = server;
  const seen = { password: false, clear: false, version: 0 };
  const client = new pg.Client({
    host,
    port,
    database,
    user: username,
    password: () => {
      seen.password = true;
      if (!seen.clear || sslMode === "verify-full") return password;
      throw refused("the database asks for the password in the clear, which takes ssl_mode verify-full");
    },
    stream: () => stream,
    ssl: false,
    enableChannelBinding: sslMode !== "disable",
    statement_timeout: statementSeconds * 1000,
    lock_timeout: statementSeconds * 1000,
    application_name: "holdfast",
    // Said, or they would be taken out of this program's environment.
    sslnegotiation: "postgres",
    client_encoding: "UTF8",
    options: "-c search_path=pg_catalog",
  });
  client.on("error", () => {});
  client.connection.on("authenticationCleartextPassword", () => (seen.clear = true));
  client.connection.on("parameterStatus", ({ parameterName, parameterValue }: Record<string, string>) => {
    if (parameterName === "server_version") seen.version = Number.parseInt(parameterValue ?? "", 10);
  });
  await client.connect().catch((error) => {
    throw notLoggedIn(error, username);
  });
  if (!(seen.version >= oldestMajor)) throw refused(`the database is no PostgreSQL from version ${oldestMajor} on`);
  return {
    askedForPassword: seen.password,
    run: (statement: string) => client.query(statement).then(() => {}, notRun),
    // Says goodbye, and leaves the rest to the server or to the end of the session.
    [Symbol.dispose]: () => void client.end().catch(() => {}),
  };
}

const refused = (message: string) => new TargetError("refused", message, { permanent: true, unchanged: true });

/** What the server or its like writes is not passed on: only codes, by the names that they have. */
function notLoggedIn(error: unknown, username: string): TargetError {
  if (error instanceof TargetError) return error;
  if (error instanceof pg.DatabaseError) {
    const condition = conditionOf(error.code);
    if (error.code?.startsWith("28") === true) return new LoginRefused(username, condition);
    const options = { permanent: isPermanent(error.code), unchanged: true };
    return new TargetError("refused", `the database refused the connection (${condition})`, options);
  }
  // Made by the client itself when the server cannot prove that it knows the password.
  if ((error as Error).message.startsWith("SASL")) return refused("the database failed to authenticate itself (SCRAM)");
  return connectionLost({ unchanged: true });
}

function notRun(error: unknown): never {
  if (!(error instanceof pg.DatabaseError)) throw connectionLost({ unchanged: false });
  const options = { permanent: isPermanent(error.code), unchanged: hasNoEffect(error.code) };
  throw new TargetError("refused", `the database refused the statement (${conditionOf(error.code)})`, options);
}
