import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { readRegularFile } from "./regular-file.ts";

const run = promisify(execFile);

const largestFile = 16 * 1024 * 1024;
const lookUpTimeoutMs = 2000;
const mostLookUps = 100;

/** The names of users and groups on this host. Files are read once, and every other name is asked for once. */
export class AccountNames {
  readonly #users = new NameDatabase("passwd");
  readonly #groups = new NameDatabase("group");

  /** As in "root:apache", with numbers for those without a name. */
  async ownerText(uid: bigint, gid: bigint): Promise<string> {
    return `${await this.#users.nameOf(String(uid))}:${await this.#groups.nameOf(String(gid))}`;
  }
}

/** One of the databases of getent(1). */
class NameDatabase {
  readonly #database: string;
  #names: Promise<Map<string, string>> | undefined;
  #lookUpsLeft = mostLookUps;

  constructor(database: "passwd" | "group") {
    this.#database = database;
  }

  async nameOf(id: string): Promise<string> {
    this.#names ??= readNames(`/etc/${this.#database}`);
    const names = await this.#names;
    const name = names.get(id) ?? (await this.#lookUp(id)) ?? id;
    names.set(id, name);
    return name;
  }

  /** Files are not all: the users of a domain, which is where keytabs are, come from a directory service. */
  async #lookUp(id: string): Promise<string | undefined> {
    if (this.#lookUpsLeft === 0) return undefined;
    this.#lookUpsLeft -= 1;
    const options = { timeout: lookUpTimeoutMs, env: { PATH: process.env["PATH"] } };
    try {
      const { stdout } = await run("getent", [this.#database, id], options);
      return stdout.split(":", 1)[0] || undefined;
    } catch (error) {
      // Status 2 says that there is no such name. Anything else would be so for the next one too.
      if ((error as { code?: unknown }).code !== 2) this.#lookUpsLeft = 0;
      return undefined;
    }
  }
}

/** The names of passwd(5) or group(5), by number; none when the file cannot be read. */
async function readNames(path: string): Promise<Map<string, string>> {
  const content = await readRegularFile(path, largestFile).catch(() => undefined);
  const lines = content?.bytes.toString("utf8").split("\n") ?? [];
  const entries = lines.map((line) => line.split(":")).map(([name = "", , id = ""]) => [id, name] as const);
  // The first line of a number is the one that counts.
  return new Map(entries.filter(([, name]) => name !== "").reverse());
}
