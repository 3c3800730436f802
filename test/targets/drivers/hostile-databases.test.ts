import { generateKeyPairSync } from "node:crypto";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Driver } from "../../../src/targets/drivers/driver.ts";
import { mysqlUser } from "../../../src/targets/drivers/mysql-user.ts";
import { postgresRole } from "../../../src/targets/drivers/postgres-role.ts";
import { eventually } from "../../harness/program.ts";
import { randomFrom } from "../../harness/random.ts";
import { TestPermit } from "./assignment.ts";
import { assignmentFor, failure, outbound } from "./database-target.ts";
import { hello, ok, packet, row, switchTo } from "./mysql-protocol.ts";

const [previous, candidate] = ["previous-password", "candidate-password"];

/** A server that answers what it is sent, one answer after the other, whatever that is; the first one unasked if `greets`. */
class Script {
  /** All that it was sent. */
  received = "";
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(answers: readonly Buffer[], greets: boolean) {
    this.#server = createServer((socket) => {
      const left = [...answers];
      const answer = () => {
        const next = left.shift();
        if (next !== undefined) socket.write(next);
        // Nobody waits for the rest.
        if (left.length === 0 && answers.length > 0) socket.end();
      };
      this.#sockets.add(socket);
      socket
        .on("error", () => {})
        .on("data", (chunk) => {
          this.received += chunk.toString("latin1");
          answer();
        });
      if (greets) answer();
    });
  }

  static async start(answers: readonly Buffer[], greets: boolean): Promise<Script> {
    const script = new Script(answers, greets);
    await new Promise<void>((resolve) => script.#server.listen(0, "127.0.0.1", resolve));
    return script;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get connections(): number {
    return [...this.#sockets].filter((socket) => !socket.destroyed).length;
  }

  stop(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

/** A message of PostgreSQL: a letter, a length and the rest. */
function message(letter: string, ...parts: (string | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const header = Buffer.alloc(5);
  header.write(letter);
  header.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([header, body]);
}
const authentication = (kind: number, ...parts: (string | Buffer)[]) =>
  message("R", Buffer.from([0, 0, 0, kind]), ...parts);
const version = (text: string) => message("S", `server_version\0${text}\0`);
const letsIn = (text: string) => Buffer.concat([authentication(0), version(text), message("Z", "I")]);

const scramble = Buffer.alloc(20, 7);
const greets = (plugin = "mysql_native_password") => packet(hello("8.0.36", scramble, plugin, false), 0);
const publicKey = generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey.export({ type: "spki", format: "pem" });
const flood = Buffer.alloc(8 * 1024 * 1024, 0xff);

const kinds = [
  { what: "PostgreSQL", driver: postgresRole, settings: { database: "app" }, speaksFirst: false },
  { what: "MySQL", driver: mysqlUser, settings: {}, speaksFirst: true },
] as const;

describe("A server that only pretends to be a database", () => {
  let script: Script | undefined;
  afterEach(() => {
    script?.stop();
    script = undefined;
  });

  async function applyAt(
    kind: (typeof kinds)[number],
    answers: readonly Buffer[],
    settings: JsonObject = {},
    permit = new TestPermit(),
  ): Promise<{ applying: Promise<unknown>; script: Script }> {
    script = await Script.start(answers, kind.speaksFirst);
    const driver: Driver = kind.driver;
    const all = {
      host: "127.0.0.1",
      port: script.port,
      username: "app",
      ssl_mode: "disable",
      ...kind.settings,
      ...settings,
    };
    const task = assignmentFor(driver, all, { value: candidate, previousValue: previous });
    return { applying: kind.driver.open({ outbound }).apply(task, permit), script };
  }

  for (const kind of kinds) {
    describe(kind.what, () => {
      it("keeps nobody who has to stop, when it says nothing", async () => {
        const permit = new TestPermit();
        const { applying, script } = await applyAt(kind, [], {}, permit);
        await eventually("there is a connection", () => (script.connections > 0 ? true : undefined));

        permit.end(new Error("stop"));

        expect(await applying.catch((error: Error) => error.message)).to.equal("stop");
        await eventually("there is none", () => (script.connections === 0 ? true : undefined));
      });

      it("cannot fill the memory", async () => {
        const { applying } = await applyAt(
          kind,
          Array.from({ length: 20 }, () => flood),
        );

        expect(await failure(applying)).to.include({ code: "unreachable" });
      });

      it("cannot end the program by what nobody understands", async () => {
        const random = randomFrom(6);
        for (let round = 0; round < 40; round++) {
          const noise = () =>
            Buffer.from(Array.from({ length: Math.ceil(random() * 80) }, () => Math.floor(random() * 256)));
          const beginnings =
            kind.what === "MySQL"
              ? [greets(), Buffer.concat([greets(), packet(ok, 2)]), packet(noise(), 0)]
              : [authentication(Math.floor(random() * 13), noise()), message("R"), message("E", noise())];
          const first = beginnings[round % (beginnings.length + 1)] ?? noise();
          const all = Buffer.concat([first, packet(noise(), 2), message("E", noise()), noise()]);
          const { applying, script } = await applyAt(kind, [all]);

          await failure(applying);

          script.stop();
          await turn();
        }
      });
    });
  }

  const [postgres, mysql] = kinds;

  const ofPostgres: [string, Buffer[], JsonObject, string][] = [
    [
      "says something before TLS that would pass for said over it",
      [Buffer.concat([Buffer.from("S"), letsIn("18.0")])],
      { ssl_mode: "require" },
      "the database offers no TLS",
    ],
    [
      "answers the question for TLS with an error",
      [message("E", "SFATAL\0\0")],
      { ssl_mode: "require" },
      "the database offers no TLS",
    ],
    [
      "lets everybody in",
      [letsIn("18.0")],
      {},
      "the database lets the role in without a password, so that none can be verified",
    ],
    [
      "is too old for verifiers of passwords",
      [letsIn("9.6.24")],
      {},
      "the database is no PostgreSQL from version 10 on",
    ],
    [
      "says of itself no version",
      [Buffer.concat([authentication(0), message("Z", "I")])],
      {},
      "the database is no PostgreSQL from version 10 on",
    ],
    [
      "asks for the password in the clear",
      [authentication(3)],
      {},
      "the database asks for the password in the clear, which takes ssl_mode verify-full",
    ],
    [
      "knows another proof than SCRAM-SHA-256",
      [authentication(10, "SCRAM-SHA-1\0\0")],
      {},
      "the database failed to authenticate itself (SCRAM)",
    ],
    [
      "makes up the answer to the proof",
      [authentication(10, "SCRAM-SHA-256\0\0"), authentication(11, "r=made-up,s=AAAA,i=4096")],
      {},
      "the database failed to authenticate itself (SCRAM)",
    ],
  ];
  for (const [what, answers, settings, why] of ofPostgres) {
    it(`as PostgreSQL, and ${what}, is told nothing, for good`, async () => {
      const { applying, script } = await applyAt(postgres, answers, settings);

      const error = await failure(applying);

      expect(error.message).to.equal(why);
      expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
      expect(script.received).to.not.match(/SCRAM-SHA-256\$|alter|password/);
    });
  }

  const ofMysql: [string, Buffer[]][] = [
    ["in the clear", [greets(), packet(switchTo("mysql_clear_password", Buffer.alloc(0)), 2)]],
    ["by a plugin that nobody knows", [greets(), packet(switchTo("dialog", Buffer.from("Password: ")), 2)]],
    [
      "by a key of its own",
      [
        greets("caching_sha2_password"),
        packet(switchTo("caching_sha2_password", scramble), 2),
        packet(Buffer.from([1, 4]), 4),
        packet(Buffer.concat([Buffer.from([1]), Buffer.from(publicKey)]), 6),
      ],
    ],
    [
      "by a key of its own, as before MySQL 8",
      [
        greets(),
        packet(switchTo("sha256_password", scramble), 2),
        packet(Buffer.concat([Buffer.from([1]), Buffer.from(publicKey)]), 4),
      ],
    ],
  ];
  for (const [how, answers] of ofMysql) {
    it(`as MySQL, and asks for the password ${how}, gets none without TLS, for good`, async () => {
      const { applying, script } = await applyAt(mysql, answers);

      const error = await failure(applying);

      expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
      expect(script.received).to.not.include(previous).and.not.include(candidate);
      // What is encrypted for a key is as long as the key.
      expect(script.received.length).to.be.lessThan(256);
    });
  }

  it("as MySQL, and asks for a file, gets none", async () => {
    const asks = packet(Buffer.concat([Buffer.from([251]), Buffer.from("/etc/passwd")]), 1);
    const { applying, script } = await applyAt(mysql, [greets(), packet(ok, 2), asks, packet(ok, 3)]);

    await failure(applying);

    expect(script.received).to.include("select version()").and.not.include("root:");
  });

  it("as MySQL, and speaks when it was not asked, ends the connection and not the program", async () => {
    const unasked = Buffer.concat([packet(ok, 2), packet(Buffer.from([255]), 0)]);
    const { applying } = await applyAt(mysql, [greets(), unasked]);

    expect(await failure(applying)).to.include({ code: "unreachable" });
  });

  it("as MySQL, and counts wrong, does not fill the log", async () => {
    const lines: unknown[] = [];
    const { error } = console;
    console.error = (...line: unknown[]) => void lines.push(line);
    try {
      const [count, column, end, text] = row("8.0.36") as [Buffer, Buffer, Buffer, Buffer];
      const wrong = [count, column, end, ...Array.from({ length: 1000 }, () => text)].map((each) => packet(each, 77));
      const { applying } = await applyAt(mysql, [greets(), packet(ok, 2), Buffer.concat(wrong)]);

      await failure(applying);

      expect(lines.length).to.be.lessThan(3);
    } finally {
      console.error = error;
    }
  });
});
