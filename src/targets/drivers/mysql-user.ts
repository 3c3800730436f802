import { z } from "zod";
import type { Outbound } from "../../outbound/outbound.ts";
import { orElse } from "../settings.ts";
import { TargetError } from "../target-error.ts";
import { inSession, knownPasswords, LoginRefused, withFirstAccepted } from "./database-session.ts";
import { adminCredentials, adminOf, nameOf, serverSettings } from "./database-settings.ts";
import type { Applier, Assignment, Driver, Permit } from "./driver.ts";
import { composeValue, type Login, readLogin } from "./login-value.ts";
import { type MysqlConnection, openMysql } from "./mysql-connection.ts";
import { changePassword } from "./mysql-password.ts";

/** 32 characters (MySQL) or 128 (MariaDB), of at most four bytes. */
const mostNameBytes = 512;
const name = nameOf(mostNameBytes);

const settings = z.strictObject({
  ...serverSettings(3306),
  username: name,
  /** Of the account whose password another one changes. */
  user_host: orElse(nameOf(255), "%"),
  /** Lets the password before go on working, beside the new one. */
  dual_password: orElse(z.boolean(), false),
});

type Settings = z.output<typeof settings>;

/**
 * Changes the password of a user of MySQL or MariaDB: by another user who may do that, or by the user itself with the
 * password that it has. MariaDB is told the hash only; MySQL takes no hash from those who are not administrators, and is
 * told the password over TLS.
 */
export const mysqlUser = {
  settings,
  credentials: adminCredentials(mostNameBytes),
  compose(password, given, previousValue) {
    const { host, port, username, value_format: format } = given as Settings;
    return composeValue(format, { username, password }, { scheme: "mysql", host, port }, previousValue);
  },
  open: ({ outbound }) => new MysqlUserApplier(outbound),
} satisfies Driver;

class MysqlUserApplier implements Applier {
  readonly #outbound: Outbound;

  constructor(outbound: Outbound) {
    this.#outbound = outbound;
  }

  async apply(assignment: Assignment, permit: Permit): Promise<undefined> {
    const { username, user_host: host, dual_password: isDual } = settingsOf(assignment);
    const admin = adminOf(assignment);
    const login = { username, password: passwordIn(assignment.value) };
    // Once more would push the password before out of its place beside the new one.
    if (isDual && (await this.#accepts(login, assignment, permit))) return;
    const change = { password: login.password, isDual, restored: await this.#toRestore(assignment, permit) };
    if (admin === undefined) {
      await withFirstAccepted(username, knownPasswords(assignment), (current) =>
        this.#at(assignment, current, permit, async (user, changing) => {
          if (current.password !== login.password) await changePassword(user, change, changing);
        }),
      );
      return;
    }
    // Its password would be changed, and the credentials are none any more.
    if (admin.username === username) throw invalid("admin_username must be another user than the one that is rotated");
    const account = { username, host };
    await this.#at(assignment, admin, permit, (user, changing) =>
      changePassword(user, { ...change, account }, changing),
    );
  }

  /** With dual passwords, the one before goes on as it is. */
  async revert(assignment: Assignment, permit: Permit): Promise<boolean> {
    const admin = adminOf(assignment);
    const { username, user_host: host, dual_password: isDual } = settingsOf(assignment);
    const { previousValue } = assignment;
    if (admin === undefined || previousValue === undefined || isDual) return false;
    const account = { username, host };
    const change = { password: passwordIn(previousValue), isDual, restored: undefined, account };
    await this.#at(assignment, admin, permit, (user, changing) => changePassword(user, change, changing));
    return true;
  }

  async verify(assignment: Assignment, permit: Permit): Promise<void> {
    const { username } = settingsOf(assignment);
    const login = { username, password: passwordIn(assignment.value) };
    await this.#at(assignment, login, permit, async (user) => void (await user.ask("select 1")));
  }

  /** The password before, where a candidate that was given up has taken its place, and it would lose the one beside. */
  async #toRestore(assignment: Assignment, permit: Permit): Promise<string | undefined> {
    const { username, dual_password: isDual } = settingsOf(assignment);
    const { previousValue, earlierCandidates } = assignment;
    if (!isDual || previousValue === undefined) return undefined;
    for (const earlier of earlierCandidates) {
      const login = { username, password: passwordIn(earlier) };
      if (await this.#accepts(login, assignment, permit)) return passwordIn(previousValue);
    }
    return undefined;
  }

  async #accepts(login: Login, assignment: Assignment, permit: Permit): Promise<boolean> {
    try {
      await this.#at(assignment, login, permit, async () => {});
      return true;
    } catch (error) {
      if (error instanceof LoginRefused) return false;
      throw error;
    }
  }

  #at(
    assignment: Assignment,
    login: Login,
    permit: Permit,
    work: (connection: MysqlConnection, changing: () => void) => Promise<void>,
  ): Promise<void> {
    return inSession(permit, async (signal, changing) => {
      using connection = await openMysql(this.#outbound, settingsOf(assignment), login, signal);
      await work(connection, changing);
    });
  }
}

const settingsOf = ({ settings: given }: Assignment) => given as Settings;
const passwordIn = (value: string): string => readLogin(value).password;

const invalid = (message: string) => new TargetError("invalid", message, { permanent: true, unchanged: true });
