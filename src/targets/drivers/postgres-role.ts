import type { JsonObject } from "@bufbuild/protobuf";
import pg from "pg";
import { z } from "zod";
import type { Outbound } from "../../outbound/outbound.ts";
import { scramVerifier } from "../../standards/scram-verifier.ts";
import { orElse } from "../settings.ts";
import { TargetError } from "../target-error.ts";
import { inSession, knownPasswords, withFirstAccepted } from "./database-session.ts";
import { adminCredentials, adminOf, nameOf, serverSettings } from "./database-settings.ts";
import type { Applier, Assignment, Driver, Permit } from "./driver.ts";
import { composeValue, type Login, readLogin } from "./login-value.ts";
import { openPostgres, type PostgresConnection } from "./postgres-connection.ts";

/** PostgreSQL cuts longer names, and would then mean another role. */
const mostNameBytes = 63;
const name = nameOf(mostNameBytes);

const settings = z.strictObject({
  ...serverSettings(5432),
  database: name,
  username: orElse(name.nullable(), null),
  /** Two roles that take turns, so that the password before goes on working. */
  roles: orElse(z.tuple([name, name]).nullable(), null),
});

type Settings = z.output<typeof settings>;

/**
 * Changes the password of a role: by a role that may do that, or by the role itself with the password that it has. With two
 * `roles`, each new value is for the one that the value before is not for. The server is never told the password, only what
 * it checks a password with.
 */
export const postgresRole = {
  settings,
  credentials: adminCredentials(mostNameBytes),
  faults,
  compose(password, given, previousValue) {
    const { host, port, database, ssl_mode: sslmode, value_format: format, ...named } = given as Settings;
    const login = { username: nextRole(named, previousValue), password };
    const place = { scheme: "postgresql", host, port, database, parameters: { sslmode } };
    return composeValue(format, login, place, previousValue);
  },
  open: ({ outbound }) => new PostgresRoleApplier(outbound),
} satisfies Driver;

class PostgresRoleApplier implements Applier {
  readonly #outbound: Outbound;

  constructor(outbound: Outbound) {
    this.#outbound = outbound;
  }

  async apply(assignment: Assignment, permit: Permit): Promise<undefined> {
    const login = loginOf(assignment);
    const admin = adminOf(assignment);
    if (admin === undefined) {
      await this.#applyAsItself(login, assignment, permit);
      return;
    }
    // Its password would be changed, and the credentials are none any more.
    if (admin.username === login.username)
      throw invalid("admin_username must be another role than the one that is rotated");
    await this.#at(assignment, admin, permit, (connection, changing) => alter(connection, login, changing));
  }

  /** Of two roles that take turns, the one before goes on as it is. */
  async revert(assignment: Assignment, permit: Permit): Promise<boolean> {
    const admin = adminOf(assignment);
    const { previousValue } = assignment;
    if (admin === undefined || previousValue === undefined || settingsOf(assignment).roles !== null) return false;
    const before = loginOf({ ...assignment, value: previousValue });
    await this.#at(assignment, admin, permit, (connection, changing) => alter(connection, before, changing));
    return true;
  }

  async verify(assignment: Assignment, permit: Permit): Promise<void> {
    await this.#at(assignment, loginOf(assignment), permit, async (role) => {
      provePassword(role);
      await role.run("select 1");
    });
  }

  async #applyAsItself(login: Login, assignment: Assignment, permit: Permit): Promise<void> {
    await withFirstAccepted(login.username, knownPasswords(assignment), (current) =>
      this.#at(assignment, current, permit, async (role, changing) => {
        provePassword(role);
        if (current.password !== login.password) await alter(role, login, changing);
      }),
    );
  }

  #at(
    assignment: Assignment,
    login: Login,
    permit: Permit,
    work: (connection: PostgresConnection, changing: () => void) => Promise<void>,
  ): Promise<void> {
    return inSession(permit, async (signal, changing) => {
      using connection = await openPostgres(this.#outbound, settingsOf(assignment), login, signal);
      await work(connection, changing);
    });
  }
}

async function alter(connection: PostgresConnection, { username, password }: Login, changing: () => void) {
  if (!/^[\x20-\x7e]+$/.test(password)) throw invalid("the new password must be of ASCII characters");
  const verifier = pg.escapeLiteral(await scramVerifier(password));
  changing();
  await connection.run(`alter role ${pg.escapeIdentifier(username)} password ${verifier}`);
}

function provePassword({ askedForPassword }: PostgresConnection): void {
  if (askedForPassword) return;
  const message = "the database lets the role in without a password, so that none can be verified";
  throw new TargetError("refused", message, { permanent: true, unchanged: true });
}

function faults(given: JsonObject, hasCredentials: boolean) {
  const { username, roles, value_format: format } = given as Settings;
  const found: { field: string; message: string }[] = [];
  const fault = (field: string, message: string) => void found.push({ field, message });
  if (roles === null) {
    if (username === null) fault("username", "is required unless there are roles");
    return found;
  }
  if (roles[0] === roles[1]) fault("roles", "must be two different roles");
  if (!hasCredentials) fault("roles", "need credentials, of a role that may change their passwords");
  if (format === "password") fault("value_format", "must say which role the value is for: connection_string or json");
  if (username !== null && !roles.includes(username)) fault("username", "must be one of the roles, or left out");
  return found;
}

/** The role that the value before is not for; `username` says which one that is where the value does not. */
function nextRole({ roles, username }: Pick<Settings, "roles" | "username">, previousValue: string): string {
  if (roles === null) return username ?? "";
  const present = [readLogin(previousValue).username, username].find((each) => roles.some((role) => role === each));
  return roles[0] === present ? roles[1] : roles[0];
}

function loginOf(assignment: Assignment): Login {
  const { roles, username } = settingsOf(assignment);
  const { password, ...named } = readLogin(assignment.value);
  if (roles === null) return { username: username ?? "", password };
  const role = roles.find((each) => each === named.username);
  if (role === undefined) throw invalid("the value is for none of the roles");
  return { username: role, password };
}

const settingsOf = ({ settings: given }: Assignment) => given as Settings;

const invalid = (message: string) => new TargetError("invalid", message, { permanent: true, unchanged: true });
