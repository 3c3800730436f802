import { once } from "node:events";
import type { Socket } from "node:net";
import type { authPlugins, Connection, ConnectionOptions } from "mysql2";
import type { Outbound } from "../../outbound/outbound.ts";
import { TargetError } from "../target-error.ts";
import { connectionLost, connectTo, LoginRefused, notSecured, tlsOptionsOf } from "./database-session.ts";
import type { ServerSettings } from "./database-settings.ts";
import type { Login } from "./login-value.ts";
import { hasNoEffect, isPermanentError, isWrongPassword, nameOfError } from "./mysql-errors.ts";

/** Somebody logged in at a MySQL or MariaDB. */
export interface MysqlConnection extends Disposable {
  /** Whether all that is sent and received is encrypted. */
  readonly isEncrypted: boolean;
  /** Runs a statement without lasting effects; answers the first column of the first row. Throws a TargetError. */
  ask(statement: string): Promise<unknown>;
  /** Runs a statement with lasting effects. Throws a TargetError. */
  change(statement: string): Promise<void>;
}

/** Throws a TargetError, which is a LoginRefused where the server does not let in whoever has this name and password. */
export async function openMysql(
  outbound: Outbound,
  server: ServerSettings,
  login: Login,
  signal: AbortSignal,
): Promise<MysqlConnection> {
  // Costs 25 MB, and so is loaded only where it is used.
  const { default: mysql } = await import("mysql2");
  const socket = await connectTo(outbound, server, signal);
  const options = optionsOf(outbound, server, login, socket, neverInTheClear(mysql.authPlugins));
  const connection = contained(mysql.createConnection(options), socket);
  connection.on("error", () => {});
  try {
    await once(connection, "connect");
  } catch (error) {
    socket.destroy();
    throw notLoggedIn(error as MysqlError, login.username);
  }
  return loggedIn(connection, server.ssl_mode !== "disable");
}

function loggedIn(connection: Connection, isEncrypted: boolean): MysqlConnection {
  let isUnchanged = true;
  const query = (sql: string) =>
    new Promise<unknown>((resolve, reject) =>
      connection.query({ sql, rowsAsArray: true }, (error, rows) => (error === null ? resolve(rows) : reject(error))),
    );
  return {
    isEncrypted,
    async ask(statement) {
      const rows = await query(statement).catch((error) => {
        throw notRun(error, () => isUnchanged);
      });
      return Array.isArray(rows) ? rows[0]?.[0] : undefined;
    },
    async change(statement) {
      await query(statement).catch((error) => {
        throw notRun(error, (errno) => isUnchanged && errno !== undefined && hasNoEffect(errno));
      });
      isUnchanged = false;
    },
    // Says goodbye, and leaves the rest to the server or to the end of the session.
    [Symbol.dispose]: () => connection.end(() => {}),
  };
}

function optionsOf(
  outbound: Outbound,
  server: ServerSettings,
  login: Login,
  socket: Socket,
  withoutTls: NonNullable<ConnectionOptions["authPlugins"]>,
): ConnectionOptions {
  const { host, port, ssl_mode: sslMode } = server;
  const tls = tlsOptionsOf(outbound, server);
  const isVerified = sslMode === "verify-full";
  const { ca } = (tls ?? {}) as { ca?: string[] };
  const trust = ca === undefined ? {} : { ca };
  return {
    host,
    port,
    user: login.username,
    password: login.password,
    // What TLS takes the server's identity from where the host is an address, which mysql2 does not pass on.
    stream: Object.assign(socket, { _host: host }),
    ...(tls === undefined
      ? { authPlugins: withoutTls }
      : { ssl: { ...trust, rejectUnauthorized: isVerified, verifyIdentity: isVerified } }),
    // The session's time is the limit.
    connectTimeout: 0,
    // No file of this machine is for the server to ask for, and no code is made of what it says.
    flags: ["-LOCAL_FILES"],
    disableEval: true,
  };
}

/** Without TLS these send the password encrypted for a key that anybody in between may have put there. */
const neverInTheClear = (plugins: typeof authPlugins) => ({
  caching_sha2_password: plugins.caching_sha2_password({ onServerPublicKey: refuseKey }),
  sha256_password: plugins.sha256_password({ onServerPublicKey: refuseKey }),
});

function refuseKey(): never {
  throw new Error("not without TLS");
}

/** Whatever the client throws at what a server sent, and does not expect itself, ends the connection, not this program. */
function contained(connection: Connection, socket: Socket): Connection {
  const client = connection as unknown as { handlePacket(packet?: unknown): void };
  const handle = client.handlePacket.bind(client);
  client.handlePacket = (packet) => {
    if (socket.destroyed) return;
    try {
      handle(packet);
    } catch (error) {
      socket.destroy(error as Error);
    }
  };
  // It would go on, with a line on the standard error for each.
  return connection.on("warn", () => socket.destroy());
}

/** As mysql2 makes them: of the server if there is a number and a state. */
interface MysqlError extends NodeJS.ErrnoException {
  readonly sqlState?: string;
}

function notLoggedIn(error: MysqlError, username: string): TargetError {
  const { errno, sqlState, code, message } = error;
  if (sqlState !== undefined && errno !== undefined) {
    if (isWrongPassword(errno)) return new LoginRefused(username, nameOfError(errno));
    const options = { permanent: isPermanentError(errno), unchanged: true };
    return new TargetError("refused", `the database refused the connection (${nameOfError(errno)})`, options);
  }
  const refused = (why: string) => new TargetError("refused", why, { permanent: true, unchanged: true });
  switch (code) {
    case "HANDSHAKE_NO_SSL_SUPPORT":
      return refused("the database offers no TLS");
    case "HANDSHAKE_SSL_ERROR":
      return message.includes("disconnected") ? connectionLost({ unchanged: true }) : notSecured("its certificate");
    case "AUTH_SWITCH_PLUGIN_ERROR":
    case "MYSQL_CLEAR_PASSWORD_NOT_ENABLED":
      return refused("the database asks for the password in a way that is not supported, or not without TLS");
    default:
      return connectionLost({ unchanged: true });
  }
}

function notRun({ errno, sqlState }: MysqlError, isUnchanged: (errno?: number) => boolean): TargetError {
  if (sqlState === undefined || errno === undefined) return connectionLost({ unchanged: isUnchanged() });
  const options = { permanent: isPermanentError(errno), unchanged: isUnchanged(errno) };
  return new TargetError("refused", `the database refused the statement (${nameOfError(errno)})`, options);
}
