import { randomBytes, randomInt } from "node:crypto";
import { expect } from "chai";
import { clientKeys, rfc5054Group3072 as group } from "../../../src/standards/srp.ts";
import { enroll } from "../../harness/person.ts";
import { useServer, usualPassword } from "../../harness/server.ts";
import { statementsDuring } from "./query-plans.ts";
import { signedRank } from "./signed-rank.ts";

const server = useServer({ LOG_LEVEL: "warn" });

const pairsInRound = 200;
const warmUpPairs = 20;
const enrolledUsers = 30;

/**
 * In standard deviations. Without any difference one of the four measures is beyond this in one round, and in the same
 * direction in a second, by chance once in 10,000 runs: 4 * 0.0069 * 0.0035.
 */
const bound = 2.7;

/** What the two steps of a login take, in milliseconds: by the clock, and of processor time in this process, the server's. */
const measures = ["init clock", "init processor", "verify clock", "verify processor"] as const;
type Measure = (typeof measures)[number];
type Took = Record<Measure, number>;

/** One after the other, in either order: failed logins under a name that somebody has, and under one that nobody has. */
interface Pair {
  readonly known: Took;
  readonly unknown: Took;
}

const newName = () => `user-${randomBytes(6).toString("hex")}`;
const clientPublicKey = Buffer.from(clientKeys(group).publicKey).toString("base64");
const begin = (username: string) => server.anonymous.rest("POST", "/api/v1/auth/srp/init", { username });

/** A proof that no password gives. */
function end(username: string) {
  const proof = { client_public_key: clientPublicKey, client_proof: randomBytes(32).toString("base64") };
  return server.anonymous.rest("POST", "/api/v1/auth/srp/verify", { username, ...proof });
}

/** Users of two organizations. */
async function enrollUsers(): Promise<string[]> {
  const { admin: other } = await server.otherOrganization();
  const names = Array.from({ length: enrolledUsers }, newName);
  for (const [index, username] of names.entries()) {
    const { body } = await (index % 2 === 0 ? server.admin : other).rest("POST", "/api/v1/users", { username });
    await enroll(server.anonymous, username, body.enrollment_token, usualPassword);
  }
  return names;
}

async function time(work: () => Promise<{ readonly status: number }>, expected: number) {
  const cpu = process.cpuUsage();
  const start = performance.now();
  const { status } = await work();
  const clock = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  expect(status).to.equal(expected);
  return { clock, processor: (user + system) / 1000 };
}

async function failLogin(username: string): Promise<Took> {
  const init = await time(() => begin(username), 200);
  const verify = await time(() => end(username), 401);
  // Names are used again, and ten failures would shut an account.
  await server.server.core.redis.del(`login-failures:user:${username}`);
  return {
    "init clock": init.clock,
    "init processor": init.processor,
    "verify clock": verify.clock,
    "verify processor": verify.processor,
  };
}

async function failPair(known: string): Promise<Pair> {
  const unknown = newName();
  if (randomInt(2) === 0) return { known: await failLogin(known), unknown: await failLogin(unknown) };
  return { unknown: await failLogin(unknown), known: await failLogin(known) };
}

async function failPairs(users: readonly string[], count: number): Promise<Pair[]> {
  const pairs: Pair[] = [];
  while (pairs.length < count) pairs.push(await failPair(users[pairs.length % users.length] as string));
  return pairs;
}

/** How far the names can be told apart, were those that somebody has to take `moreMs` longer. */
const tellingApart = (pairs: readonly Pair[], measure: Measure, moreMs = 0) =>
  signedRank(pairs.map(({ known, unknown }) => known[measure] + moreMs - unknown[measure]));

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

/**
 * A difference that a round has to show: a tenth of the processor time, which is 0.2 to 0.3 ms where nothing else runs, and
 * half of the time by the clock, which on a busy machine is most of all the time of others.
 */
const leakOf = (pairs: readonly Pair[], measure: Measure) =>
  median(pairs.map(({ unknown }) => unknown[measure])) / (measure.endsWith("processor") ? 10 : 2);

describe("A failed login", () => {
  let users: string[];
  const rounds: Pair[][] = [];

  /** The second is asked for only when the first leaves a doubt. */
  const round = async (number: 1 | 2) => (rounds[number - 1] ??= await failPairs(users, pairsInRound));

  before(async function () {
    this.timeout(60_000);
    users = await enrollUsers();
    await failPairs(users, warmUpPairs);
  });

  it("sends the database the same statements, whether the user or the password is wrong", async () => {
    const sent = async (username: string) => {
      const both = async () => [await begin(username), await end(username)];
      return (await statementsDuring(server, both)).map(({ text }) => text);
    };

    const ofNobody = await sent(newName());

    expect(ofNobody).not.to.have.length(0);
    expect(await sent(users[0] as string)).to.deep.equal(ofNobody);
    expect(await sent(users[1] as string)).to.deep.equal(ofNobody);
  });

  for (const measure of measures) {
    it(`does not tell by its ${measure} time whether the user or the password is wrong`, async function () {
      this.timeout(90_000);

      const first = tellingApart(await round(1), measure);
      const second = Math.abs(first) < bound ? 0 : tellingApart(await round(2), measure);

      expect(Math.sign(first) * second, `${first} and ${second} standard deviations`).to.be.below(bound);
    });

    it(`would tell by its ${measure} time if one of them took longer`, async function () {
      this.timeout(90_000);
      const shows = (pairs: readonly Pair[]) => {
        const leak = leakOf(pairs, measure);
        return [leak, -leak].every((moreMs) => Math.abs(tellingApart(pairs, measure, moreMs)) > bound);
      };

      expect(shows(await round(1)) || shows(await round(2))).to.equal(true);
    });
  }
});
