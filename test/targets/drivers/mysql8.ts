import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { asksForTls, hello, ok, Packets, readLogin, refusal, row } from "./mysql-protocol.ts";

interface Account {
  primary: string;
  secondary: string | undefined;
}

interface Options {
  readonly version?: string;
  readonly certFile: string;
  readonly keyFile: string;
}

/**
 * A server that takes second passwords as MySQL does since 8.0.14, and logins by caching_sha2_password over TLS: as far as
 * the driver of its users goes, for there is none to install beside these tests.
 */
export class Mysql8 {
  readonly accounts = new Map<string, Account>();
  /** All statements that were sent, but for the questions. */
  readonly statements: string[] = [];
  /** Cuts the connection instead of answering the next such statement, which it has done. */
  cutAfter: RegExp | undefined;
  readonly #server: Server;
  readonly #options: Options;
  readonly #sockets = new Set<Socket>();

  private constructor(options: Options) {
    this.#options = options;
    this.#server = createServer((socket) => {
      this.#sockets.add(socket.on("error", () => {}));
      void this.#serve(socket).finally(() => socket.destroy());
    });
  }

  static async start(options: Options): Promise<Mysql8> {
    const target = new Mysql8(options);
    await new Promise<void>((resolve) => target.#server.listen(0, "127.0.0.1", resolve));
    return target;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Which passwords a user may log in with, the present one first. */
  accepted(username: string): string[] {
    const { primary, secondary } = this.accounts.get(username) ?? {};
    return [primary, secondary].filter((each) => each !== undefined);
  }

  stop(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  async #serve(socket: Socket): Promise<void> {
    const scramble = Buffer.from(randomBytes(20).map((byte) => (byte % 127) + 1));
    const plain = new Packets(socket);
    plain.write(hello(this.#options.version ?? "8.0.36", scramble, "caching_sha2_password", true));
    const first = await plain.read();
    if (first === undefined || !asksForTls(first)) return;
    const [cert, key] = [readFileSync(this.#options.certFile), readFileSync(this.#options.keyFile)];
    const packets = plain.secure({ cert, key });
    const username = await this.#logIn(packets, scramble);
    if (username !== undefined) await this.#answer(packets, username);
  }

  /** A first login asks for the password itself, and the proof says only that somebody knows it. */
  async #logIn(packets: Packets, scramble: Buffer): Promise<string | undefined> {
    const answer = await packets.read();
    if (answer === undefined) return undefined;
    const { username, proof } = readLogin(answer);
    packets.write(Buffer.from([1, 4]));
    const password = (await packets.read())?.toString().replace(/\0$/, "");
    if (password === undefined) return undefined;
    const isKnown = this.accepted(username).includes(password) && proof.equals(proofOf(password, scramble));
    packets.write(isKnown ? ok : refusal(1045, "28000"));
    return isKnown ? username : undefined;
  }

  async #answer(packets: Packets, username: string): Promise<void> {
    for (let payload = await packets.read(); payload !== undefined; payload = await packets.read()) {
      const [command, statement] = [payload[0], payload.toString("utf8", 1)];
      if (command !== 3) return;
      if (statement === "select version()")
        for (const each of row(this.#options.version ?? "8.0.36")) packets.write(each);
      else if (statement === "select 1") for (const each of row("1")) packets.write(each);
      else if (statement.startsWith("set ")) packets.write(ok);
      else {
        this.statements.push(statement);
        const isDone = this.#alter(statement, username);
        if (this.cutAfter?.test(statement) === true) {
          this.cutAfter = undefined;
          return;
        }
        packets.write(isDone ? ok : refusal(1396, "HY000"));
      }
    }
  }

  #alter(statement: string, username: string): boolean {
    const { who, password, retain } =
      /^alter user (?<who>user\(\)|'[^']+'@'%') identified by '(?<password>[^']*)'(?<retain> retain current password)?$/.exec(
        statement,
      )?.groups ?? {};
    const account = this.accounts.get(who === "user()" ? username : (who?.slice(1, -5) ?? ""));
    if (account === undefined || password === undefined) return false;
    if (retain !== undefined) account.secondary = account.primary;
    account.primary = password;
    return true;
  }
}

/** Of caching_sha2_password. */
function proofOf(password: string, scramble: Buffer): Buffer {
  const sha256 = (...parts: Buffer[]) => createHash("sha256").update(Buffer.concat(parts)).digest();
  const once = sha256(Buffer.from(password));
  const mask = sha256(sha256(once), scramble);
  return Buffer.from(once.map((byte, index) => byte ^ (mask[index] as number)));
}
