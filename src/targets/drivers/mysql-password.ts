import { createHash } from "node:crypto";
import { TargetError } from "../target-error.ts";
import { statementSeconds } from "./database-session.ts";
import type { MysqlConnection } from "./mysql-connection.ts";

interface Change {
  /** Whose password; one's own if left out. */
  readonly account?: { readonly username: string; readonly host: string };
  readonly password: string;
  /** Whether the present password goes on working beside the new one. */
  readonly isDual: boolean;
  /** What is to be the present password first. */
  readonly restored: string | undefined;
}

/** With the second passwords of MySQL. */
const oldestDual = [8, 0, 14];

/** A text of any characters is then a literal once its quotes are doubled; and no lock is waited for longer than we do. */
const session = `set names utf8mb4, sql_mode = 'NO_BACKSLASH_ESCAPES', lock_wait_timeout = ${statementSeconds}`;
const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** Changes a password in the way that the server knows. Throws a TargetError. */
export async function changePassword(connection: MysqlConnection, change: Change, changing: () => void): Promise<void> {
  const version = String(await connection.ask("select version()"));
  const statements = version.includes("MariaDB") ? inMariaDb(change) : inMysql(change, version, connection);
  await connection.ask(session);
  for (const statement of statements) {
    changing();
    await connection.change(statement);
  }
}

/** As the hash that the server keeps (mysql_native_password), so that nobody there reads the password. */
function inMariaDb({ account, password, isDual }: Change): string[] {
  if (isDual) throw invalid("MariaDB has no second passwords: dual_password must be false");
  const hash = sha1(sha1(Buffer.from(password)))
    .toString("hex")
    .toUpperCase();
  const whose = account === undefined ? "" : ` for ${literal(account.username)}@${literal(account.host)}`;
  return [`set password${whose} = '*${hash}'`];
}

/** As the password itself, which MySQL leaves out of its logs. */
function inMysql(
  { account, password, isDual, restored }: Change,
  version: string,
  connection: MysqlConnection,
): string[] {
  if (!connection.isEncrypted) throw invalid("MySQL is told new passwords over TLS only: ssl_mode must not be disable");
  if (isDual && isOlder(version, oldestDual))
    throw invalid(`dual_password takes MySQL ${oldestDual.join(".")} or later`);
  const whose = account === undefined ? "user()" : `${literal(account.username)}@${literal(account.host)}`;
  const identified = (text: string) => `alter user ${whose} identified by ${literal(text)}`;
  const first = restored === undefined ? [] : [identified(restored)];
  return [...first, `${identified(password)}${isDual ? " retain current password" : ""}`];
}

/** Also what says of itself no version. */
function isOlder(version: string, than: readonly number[]): boolean {
  const ordinalOf = ([major = 0, minor = 0, patch = 0]: readonly number[]) => (major * 1000 + minor) * 1000 + patch;
  return !(ordinalOf(version.split(/[.-]/, 3).map(Number)) >= ordinalOf(than));
}

const sha1 = (bytes: Buffer): Buffer => createHash("sha1").update(bytes).digest();

const invalid = (message: string) => new TargetError("invalid", message, { permanent: true, unchanged: true });
