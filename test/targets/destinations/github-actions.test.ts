import { inspect } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Entry, Site } from "../../../src/targets/destinations/destination.ts";
import { githubActions } from "../../../src/targets/destinations/github-actions.ts";
import { GitHubServer } from "../../harness/github-server.ts";
import { randomFrom } from "../../harness/random.ts";
import {
  answers,
  answersForever,
  answersGarbage,
  answersTooMuch,
  breaksOff,
  cutsShort,
  hangs,
  redirectsTo,
  type Trouble,
} from "../../harness/trouble.ts";
import { entryOf, failureOf, never, outbound, siteOf, targetErrorOf } from "./writing.ts";

const repository = "octocat/hello";
const config = { owner: "octocat", repository: "hello" };
const checkedConfig = (fields: JsonObject, key = "DB_PASSWORD"): JsonObject => githubActions.config(key).parse(fields);

describe("The configuration of links to GitHub Actions", () => {
  it("says the address and the name that are usual", () => {
    expect(checkedConfig(config)).to.deep.equal({
      ...config,
      secret_name: "DB_PASSWORD",
      api_url: "https://api.github.com",
    });
    expect(checkedConfig({ ...config, secret_name: null, api_url: null })).to.deep.equal(checkedConfig(config));
  });

  const names: [string, string][] = [
    ["db-password", "DB_PASSWORD"],
    ["app/db.password", "APP_DB_PASSWORD"],
    ["1password", "_1PASSWORD"],
    ["github_token", "_GITHUB_TOKEN"],
    ["GITHUB", "GITHUB"],
    ["Straße ü", "STRASSE__"],
    ["-", "_"],
    ["\u{1f511}", "__"],
    [`1${"k".repeat(254)}`, `_1${"K".repeat(253)}`],
  ];
  for (const [key, name] of names) {
    it(`names the secret ${key.slice(0, 20)} as GitHub lets it be named`, () => {
      expect(checkedConfig(config, key)["secret_name"]).to.equal(name);
      expect(checkedConfig({ ...config, secret_name: name })["secret_name"]).to.equal(name);
    });
  }

  it("is the same place however it is written", () => {
    const written = { owner: "OctoCat", repository: "Hello", environment: "Production", secret_name: "db_password" };
    const address = { api_url: "HTTPS://API.GitHub.com:443//" };

    const { origin, name } = githubActions.place(checkedConfig({ ...written, ...address }));

    expect(origin).to.equal("https://api.github.com");
    expect(name).to.equal(githubActions.place(checkedConfig({ ...config, environment: "production" })).name);
  });

  const others = [
    { owner: "other" },
    { repository: "other" },
    { environment: "other" },
    { secret_name: "OTHER" },
    { api_url: "https://github.example.com/api/v3" },
  ];
  for (const other of others) {
    it(`is another place with another ${Object.keys(other)[0]}`, () => {
      const { name } = githubActions.place(checkedConfig({ ...config, ...other }));

      expect(name).not.to.equal(githubActions.place(checkedConfig(config)).name);
    });
  }

  const refused: [string, JsonObject][] = [
    ["an owner with a slash", { owner: "octocat/hello" }],
    ["an empty owner", { owner: "" }],
    ["a way out of the path", { repository: ".." }],
    ["a repository with its owner", { repository: "octocat/hello" }],
    ["an environment with control characters", { environment: "a\nb" }],
    ["an environment that is a way out of the path", { environment: ".." }],
    ["a name that begins with a digit", { secret_name: "1A" }],
    ["a name that begins as GitHub's own", { secret_name: "github_a" }],
    ["a name with a dash", { secret_name: "A-B" }],
    ["a name of 256 characters", { secret_name: "A".repeat(256) }],
    ["an address with a query", { api_url: "https://api.github.com?a" }],
    ["what it does not know", { repo: "hello" }],
  ];
  for (const [what, changes] of refused) {
    it(`refuses ${what}`, () => {
      expect(githubActions.config("k").safeParse({ ...config, ...changes }).success).to.equal(false);
    });
  }

  it("needs a token", () => {
    expect(githubActions.faults?.({})).to.deep.equal([{ field: "token", message: "is required" }]);
    expect(githubActions.faults?.({ token: "t" })).to.deep.equal([]);
  });
});

describe("Links to GitHub Actions", () => {
  let github: GitHubServer;
  let token: string;
  beforeEach(async () => {
    github = await new GitHubServer("/api/v3").start();
    github.add(repository);
    token = github.token();
  });
  afterEach(() => github.stop());

  const writer = githubActions.open({ outbound });
  /** A link whose row keeps that the entry is its own. */
  const link = (fields: JsonObject = {}, credentials?: JsonObject) => {
    const kept = { isOwned: false };
    const site = (): Site => ({
      ...siteOf(checkedConfig({ ...config, api_url: github.apiUrl, ...fields }), credentials ?? { token }),
      owned: kept.isOwned,
      own: async () => {
        kept.isOwned = true;
      },
    });
    return {
      kept,
      write: (value = "v1", signal = never) => writer.write(entryOf({ value }), site(), signal),
      remove: (entry: Partial<Entry> = {}) => writer.remove(entryOf(entry), site(), never),
    };
  };
  const secrets = () => github.secrets(repository);
  const nth = (count: number, trouble: () => Trouble) => {
    let seen = 0;
    return () => (seen++ === count ? trouble() : undefined);
  };

  describe("write", () => {
    it("makes a secret, sealed so that only GitHub can open it", async () => {
      const ours = link();

      await ours.write("v1");

      expect(secrets()).to.deep.equal({ DB_PASSWORD: "v1" });
      expect(ours.kept.isOwned).to.equal(true);
      expect(github.received.map(({ body }) => body).join()).not.to.include("v1");
    });

    it("puts new values into the secret that it made", async () => {
      const ours = link();
      await ours.write("v1");

      await ours.write("v2");
      await ours.write("v2");

      expect(secrets()).to.deep.equal({ DB_PASSWORD: "v2" });
    });

    it("makes anew what somebody removed", async () => {
      const ours = link();
      await ours.write("v1");
      github.delete(repository, "DB_PASSWORD");

      await ours.write("v1");

      expect(secrets()).to.deep.equal({ DB_PASSWORD: "v1" });
    });

    it("writes values of 48 KB, with whatever characters they have, and empty ones", async () => {
      const ours = link();
      for (const value of ["a".repeat(49_152), 'ä\u{1f511}\n\t\u0001"\\', ""]) {
        await ours.write(value);

        expect(secrets()).to.deep.equal({ DB_PASSWORD: value });
      }
    });

    it("sends nothing that is longer than GitHub takes", async () => {
      const error = await targetErrorOf(link().write("ä".repeat(24_577)));

      expect(error).to.include({ code: "invalid", permanent: true, unchanged: true });
      expect(github.received).to.deep.equal([]);
    });

    it("writes to an environment of a repository, whatever its name", async () => {
      for (const environment of ["production", "a/b c?ü"]) {
        github.add(`${repository}/${environment}`);

        await link({ environment }).write("v1");

        expect(github.secrets(`${repository}/${environment}`)).to.deep.equal({ DB_PASSWORD: "v1" });
      }
      expect(secrets()).to.deep.equal({});
    });

    it("leaves a secret alone that it did not make, also as the last of many pages", async () => {
      for (let count = 0; count < 250; count += 1) github.set(repository, `OTHER_${count}`, "theirs");
      github.set(repository, "DB_PASSWORD", "theirs");
      const before = secrets();
      const ours = link();

      const error = await targetErrorOf(ours.write("ours"));

      expect(error).to.include({ code: "foreign", permanent: true, unchanged: true });
      expect(error.message).to.include("octocat/hello").and.include("DB_PASSWORD");
      expect(secrets()).to.deep.equal(before);
      expect(ours.kept.isOwned).to.equal(false);
    });

    it("asks no page more than there are", async () => {
      for (let count = 0; count < 100; count += 1) github.set(repository, `OTHER_${count}`, "theirs");

      await link().write();

      const pages = github.received.map(({ query }) => query.get("page")).filter((page) => page !== null);
      expect(pages).to.deep.equal(["1", "2"]);
    });

    it("seals anew when GitHub has replaced its key in between", async () => {
      let isReplaced = false;
      github.behave = ({ method }) => {
        if (method === "PUT" && !isReplaced) {
          isReplaced = true;
          github.replaceKey(repository);
        }
        return undefined;
      };

      await link().write("v1");

      expect(secrets()).to.deep.equal({ DB_PASSWORD: "v1" });
    });

    it("gives up when GitHub does not take what is sealed with its key of now either", async () => {
      github.behave = ({ method }) => (method === "PUT" ? answers(422, '{"message":"Bad request - v1"}') : undefined);

      const error = await targetErrorOf(link().write("v1"));

      expect(error).to.include({ code: "refused", permanent: true });
      expect(github.requests.filter((each) => each.startsWith("PUT"))).to.have.length(2);
    });

    it("is as GitHub asks for it", async () => {
      await link().write();

      for (const { headers } of github.received) {
        expect(headers).to.include({
          accept: "application/vnd.github+json",
          authorization: `Bearer ${token}`,
          "x-github-api-version": "2022-11-28",
        });
        expect(headers["user-agent"]).to.match(/^holdfast\/\d/);
      }
    });
  });

  describe("remove", () => {
    it("removes what it made, and is done where there is nothing", async () => {
      github.set(repository, "OTHER", "theirs");
      const ours = link();
      await ours.write();

      await ours.remove();
      await ours.remove();

      expect(secrets()).to.deep.equal({ OTHER: "theirs" });
    });

    it("is done when somebody removes it at the same time", async () => {
      const ours = link();
      await ours.write();
      github.behave = ({ method }) => {
        if (method === "DELETE") github.delete(repository, "DB_PASSWORD");
        return undefined;
      };

      await ours.remove();

      expect(secrets()).to.deep.equal({});
    });

    it("leaves a secret alone that it did not make", async () => {
      github.set(repository, "DB_PASSWORD", "theirs");

      const error = await targetErrorOf(link().remove());

      expect(error.code).to.equal("foreign");
      expect(secrets()).to.deep.equal({ DB_PASSWORD: "theirs" });
    });

    it("is not done where the token may not see whether there is something", async () => {
      const ours = link();
      await ours.write();
      const blind = link({}, { token: github.token("none") });
      blind.kept.isOwned = true;

      expect((await targetErrorOf(blind.remove())).message).to.include("GitHub answered 404");
      expect(secrets()).to.deep.equal({ DB_PASSWORD: "v1" });
    });
  });

  it("end well after a crash before or after each request of a write", async () => {
    for (const done of [false, true]) {
      for (let count = 0; count < 3; count += 1) {
        github.add(repository);
        github.set(repository, "OTHER", "theirs");
        const ours = link();
        const controller = new AbortController();
        github.behave = nth(count, () => {
          setImmediate(() => controller.abort(new Error("crash")));
          return hangs({ done });
        });
        const error = (await failureOf(ours.write("v1", controller.signal))) as Error;
        expect(error.message).to.equal("crash");
        github.behave = () => undefined;

        await ours.write("v2");

        expect(secrets()).to.deep.equal({ OTHER: "theirs", DB_PASSWORD: "v2" });
      }
    }
  });

  describe("what goes wrong", () => {
    it("is said of a token that GitHub does not know", async () => {
      const error = await targetErrorOf(link({}, { token: "unknown" }).write());

      expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
      expect(error.message).to.equal("GitHub answered 401: the token is not accepted");
    });

    it("is said of a repository or an environment that is not there, or that the token may not see", async () => {
      const blind = { token: github.token("none") };
      const all = [link({ repository: "other" }), link({ environment: "other" }), link({}, blind)];
      for (const each of all) {
        const error = await targetErrorOf(each.write());

        expect(error.message).to.include("GitHub answered 404").and.include("the token may not see it");
        expect(each.kept.isOwned).to.equal(false);
      }
    });

    it("is said of a token that may only read", async () => {
      const error = await targetErrorOf(link({}, { token: github.token("read") }).write());

      expect(error.message).to.equal(
        'GitHub answered 403: the token lacks a permission; it needs "Secrets" of the repository, read and write',
      );
      expect(error).to.include({ permanent: true, retryAfterMs: undefined });
    });

    it("is said of a repository that was renamed, which is not followed", async () => {
      const other = await new GitHubServer().start();
      github.behave = () => redirectsTo(`${other.url}/repositories/1`);

      const error = await targetErrorOf(link().write());

      expect(error.message).to.include("has another name or owner now");
      expect(other.received).to.deep.equal([]);
      await other.stop();
    });

    const soon = () => String(Math.floor(Date.now() / 1000) + 1000);
    const limits: [string, () => Trouble, number, number][] = [
      [
        "the primary limit",
        () => answers(403, "{}", { "x-ratelimit-remaining": "0", "x-ratelimit-reset": soon() }),
        900_000,
        1_000_000,
      ],
      [
        "the primary limit as 429",
        () => answers(429, "{}", { "x-ratelimit-remaining": "0", "x-ratelimit-reset": soon() }),
        900_000,
        1_000_000,
      ],
      [
        "a limit that is over",
        () => answers(403, "{}", { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1" }),
        0,
        0,
      ],
      [
        "a secondary limit that says how long",
        () => answers(403, "{}", { "retry-after": "30", "x-ratelimit-remaining": "9" }),
        30_000,
        30_000,
      ],
      [
        "a secondary limit that does not say it",
        () => answers(403, '{"message":"You have exceeded a secondary rate limit"}'),
        60_000,
        60_000,
      ],
      ["429 alone", () => answers(429), 60_000, 60_000],
    ];
    for (const [what, limit, least, most] of limits) {
      it(`is tried again when it may be, for ${what}`, async () => {
        github.behave = limit;

        const error = await targetErrorOf(link().write());

        expect(error).to.include({ code: "refused", permanent: false });
        expect(error.message).to.match(/^GitHub answered (403|429): its rate limit is reached$/);
        expect(error.retryAfterMs).to.be.within(least, most);
      });
    }

    const unusable = (key: string) => answers(200, JSON.stringify({ key_id: "1", key }));
    const troubles: [string, () => Trouble, string][] = [
      ["nothing that is understood", () => answersGarbage, "invalid"],
      ["more than is read", () => answersTooMuch, "invalid"],
      ["without end", () => answersForever, "invalid"],
      ["half of it", () => cutsShort, "unreachable"],
      ["not at all", () => breaksOff({ done: false }), "unreachable"],
      ["arrays in arrays", () => answers(200, `{"secrets":${"[".repeat(100_000)}${"]".repeat(100_000)}}`), "invalid"],
      ["500", () => answers(500, "correct horse"), "refused"],
      ["an empty success", () => answers(200), "invalid"],
      ["a key that is none", () => unusable("%"), "invalid"],
      ["a key that is too short", () => unusable("AAAA"), "invalid"],
      ["a key that nothing can be sealed with", () => unusable(Buffer.alloc(32).toString("base64")), "invalid"],
      ["the way to an address within", () => redirectsTo("http://169.254.169.254/latest"), "refused"],
    ];
    for (const [what, trouble, code] of troubles) {
      it(`ends the attempt when GitHub answers ${what}, at whichever request`, async () => {
        for (let count = 0; count < 3; count += 1) {
          github.add(repository);
          github.set(repository, "OTHER", "theirs");
          github.behave = nth(count, trouble);

          const error = await targetErrorOf(link().write());

          expect(error.code).to.equal(code);
          expect(secrets()).to.deep.equal({ OTHER: "theirs" });
        }
      });
    }

    it("is said of a list without end", async () => {
      const page = { secrets: Array.from({ length: 100 }, (_, index) => ({ name: `OTHER_${index}` })) };
      github.behave = ({ path }) => (path.endsWith("/secrets") ? answers(200, JSON.stringify(page)) : undefined);

      const error = await targetErrorOf(link().write());

      expect(error.code).to.equal("invalid");
      expect(secrets()).to.deep.equal({});
    });

    it("never shows a value or a token", async () => {
      const [value, secretToken] = ["the-value-of-all-values", "the-token-of-all-tokens"];
      for (const status of [200, 301, 401, 403, 404, 422, 429, 500]) {
        github.behave = () => answers(status, JSON.stringify({ message: `${value} ${secretToken}`, key: value }));

        const error = await targetErrorOf(link({}, { token: secretToken }).write(value));

        expect(inspect(error, { depth: 9 })).not.to.match(/of-all/);
      }
    });
  });

  it("leave what is others' as it is, whatever they and others do, and whenever they crash", async () => {
    const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Date.now() % 1_000_000);
    for (let round = 0; round < 5; round += 1) await playAtRandom(seed + round);
  });

  /** Lets links to two secrets and others use a repository, and says what is not as it should be. */
  async function playAtRandom(seed: number): Promise<void> {
    const random = randomFrom(seed);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
    github.add(repository);
    const names = ["ONE", "TWO"];
    const links = new Map(names.map((name) => [name, link({ secret_name: name })]));

    for (let step = 0; step < 60; step += 1) {
      const [name, value] = [pick(names), `v${random()}`];
      const ours = links.get(name) as ReturnType<typeof link>;
      if (random() < 0.3) {
        const other = pick(["X", "Y", "Z", ...names.filter((each) => links.get(each)?.kept.isOwned === false)]);
        if (random() < 0.5) github.set(repository, other, value);
        else github.delete(repository, other);
        continue;
      }
      const [before, wasOwned, isRemoval, crash] = [secrets(), ours.kept.isOwned, random() < 0.3, random() < 0.3];
      github.behave = crash
        ? nth(Math.floor(random() * 3), () => breaksOff({ done: random() < 0.5 }))
        : () => undefined;
      const error = await (isRemoval ? ours.remove() : ours.write(value)).then(
        () => undefined,
        (reason: { code: string }) => reason,
      );
      github.behave = () => undefined;
      const said = `seed ${seed}: ${isRemoval ? "remove" : "write"} ${name} ${error?.code}`;
      const { [name]: now, ...others } = secrets();
      const { [name]: previous, ...othersBefore } = before;
      const isForeign = previous !== undefined && !wasOwned;
      expect(others, said).to.deep.equal(othersBefore);
      if (isForeign) expect(now, said).to.equal(previous);
      if (!crash) expect(error?.code, said).to.equal(isForeign ? "foreign" : undefined);
      if (!crash && !isForeign) expect(now, said).to.equal(isRemoval ? undefined : value);
    }
  }
});
