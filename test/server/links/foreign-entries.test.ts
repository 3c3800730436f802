import { randomInt } from "node:crypto";
import type { ServerResponse } from "node:http";
import { expect } from "chai";
import { GitHubServer } from "../../harness/github-server.ts";
import { useServer } from "../../harness/server.ts";
import { LinksAmongOthers } from "./foreign-entries.ts";
import { Links } from "./links.ts";
import { type SharedPlace, sharedPlaces } from "./shared-places.ts";

const server = useServer();
const links = new Links(server);

describe("Two secrets that are linked to one entry", () => {
  links.useWorker(20);
  let gitHub: GitHubServer;

  beforeEach(async () => {
    gitHub = await new GitHubServer().start();
    gitHub.add("octocat/hello");
  });

  afterEach(() => gitHub.stop());

  const toGitHub = () => ({
    integration: "github-actions",
    config: { owner: "octocat", repository: "hello", secret_name: "TOKEN", api_url: gitHub.apiUrl },
    credentials: { token: gitHub.token() },
  });

  it("do not both make it, also where both have seen that there is none", async () => {
    const seen: ServerResponse[] = [];
    gitHub.behave = ({ method, path }) => {
      if (method !== "GET" || !path.endsWith("/secrets") || seen.length === 2) return undefined;
      const answer = (response: ServerResponse) => {
        if (seen.push(response) < 2) return;
        for (const each of seen) each.end('{"total_count": 0, "secrets": []}');
      };
      return { done: false, answer };
    };
    const both = await Promise.all(["v1", "v2"].map((value) => links.of(toGitHub(), { value })));

    const ended = await Promise.all(
      both.map((link) => links.once(link, "done", ({ status }) => ["synced", "failed"].includes(status))),
    );

    expect(ended.map(({ status }) => status)).to.have.members(["synced", "failed"]);
    expect(ended.find(({ status }) => status === "failed")?.last_error.code).to.equal("foreign");
    expect(gitHub.requests.filter((request) => request.startsWith("PUT"))).to.have.lengthOf(1);
  });

  it("do not both make it, also where one makes it after the other has looked", async () => {
    const looked = Promise.withResolvers<ServerResponse>();
    gitHub.behave = ({ method, path }) => {
      if (method !== "GET" || !path.endsWith("/secrets")) return undefined;
      gitHub.behave = () => undefined;
      return { done: false, answer: looked.resolve };
    };
    const slow = await links.of(toGitHub(), { value: "slow" });
    const answer = await looked.promise;
    await links.synced(await links.of(toGitHub(), { value: "fast" }));

    answer.end('{"total_count": 0, "secrets": []}');
    const failed = await links.failed(slow);

    expect(failed.last_error.code).to.equal("foreign");
    expect(gitHub.secrets("octocat/hello")).to.deep.equal({ TOKEN: "fast" });
  });

  it("take it over from each other when it was deleted by hand, and never write to what is the other's", async () => {
    const first = await links.of(toGitHub(), { value: "first" });
    await links.synced(first);
    gitHub.delete("octocat/hello", "TOKEN");

    const second = await links.of(toGitHub(), { value: "second" });
    await links.synced(second);
    await links.write(first, "first again");
    const failed = await links.failed(first);

    expect(failed.last_error.code).to.equal("foreign");
    expect(gitHub.secrets("octocat/hello")).to.deep.equal({ TOKEN: "second" });
  });
});

describe("Whatever is done to links", () => {
  links.useWorker(20);
  let places: SharedPlace[];

  beforeEach(async () => {
    places = await sharedPlaces();
  });

  afterEach(() => Promise.all(places.map((place) => place.stop())));

  const seed = randomInt(1, 2 ** 31);
  it(`what others have made stays as it is, and so does what links have left: seed ${seed}`, async function () {
    this.timeout(180_000);
    const among = new LinksAmongOthers(server, links, places, seed);

    // A hundred steps show nothing where by chance nothing of a kind was done.
    for (let round = 0; round < 5 && Object.values(among.counts).includes(0); round += 1) await among.run(100);

    expect(among.counts.synced).to.be.above(0);
    expect(among.counts.foreign).to.be.above(0);
    expect(among.counts.purged).to.be.above(0);
  });
});
