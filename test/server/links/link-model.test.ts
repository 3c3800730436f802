import { randomInt } from "node:crypto";
import { expect } from "chai";
import type { SyncWorker } from "../../../src/server/links/sync-worker.ts";
import { eventually } from "../../harness/program.ts";
import { useServer } from "../../harness/server.ts";
import { chooser, LinkModel, type Mood, Place } from "./link-model.ts";
import { type LinkRecord, Links, toWebhook } from "./links.ts";

const server = useServer();
const links = new Links(server);

const steps = 100;
const moods: readonly Mood[] = ["up", "up", "slow", "down", "forgetful", "busy"];

/** What anybody may do to a link, its secret and the workers; what cannot be done at the time is left out. */
class Doings {
  readonly model = new LinkModel();
  readonly link: LinkRecord;
  readonly #url: string;
  readonly #workers: SyncWorker[] = [];

  constructor(link: LinkRecord, url: string) {
    this.link = link;
    this.#url = url;
    this.#workers.push(links.work(20), links.work(20));
  }

  async put(): Promise<void> {
    if (this.model.secret !== "active") return;
    this.model.values.push(`v${this.model.version + 1}`);
    this.model.due = true;
    await links.write(this.link, this.model.value);
  }

  async rollBack(): Promise<void> {
    if (this.model.secret !== "active") return;
    this.model.values.push("v1");
    this.model.due = true;
    await this.#onSecret("POST", "/rollback", { version: 1 });
  }

  async archive(): Promise<void> {
    if (this.model.secret !== "active") return;
    this.model.secret = "archived";
    await this.#onSecret("POST", "/archive", {});
  }

  async delete(): Promise<void> {
    if (this.model.secret !== "active") return;
    this.model.secret = "deleted";
    await this.#onSecret("DELETE", "");
  }

  async expire(): Promise<void> {
    if (this.model.secret !== "active") return;
    this.model.secret = "deleted";
    await server.sql("update secret set expires_at = now() where id = $1", [this.link.secret_id]);
  }

  async restore(): Promise<void> {
    if (this.model.secret === "active") return;
    this.model.secret = "active";
    this.model.due = true;
    await this.#onSecret("POST", "/restore", {});
  }

  async force(): Promise<void> {
    if (this.model.secret !== "active") return;
    this.model.due = true;
    await this.#onSecret("POST", "/force-sync", {});
  }

  async switchSync(): Promise<void> {
    if (this.model.secret !== "active") return;
    this.model.enabled = !this.model.enabled;
    this.model.due = true;
    await links.put(this.link, { sync_enabled: this.model.enabled });
  }

  /** Only where nothing is under way: a claim lasts longer than an attempt. */
  async letTimePass(): Promise<void> {
    await settled(this.link);
    if (this.model.status === "failed") this.model.due = true;
    await links.letTimePass(this.link);
  }

  async restartWorker(): Promise<void> {
    await this.#workers.shift()?.stop();
    this.#workers.push(links.work(20));
  }

  /** Only where nothing is under way: an attempt that is under way leads to the place before. */
  async move(): Promise<void> {
    if (this.model.secret !== "active") return;
    this.model.path = this.model.path === "/a" ? "/b" : "/a";
    this.model.due = true;
    await links.put(this.link, { config: { url: `${this.#url}${this.model.path}` } });
  }

  async #onSecret(method: string, path: string, body?: object): Promise<void> {
    const { status } = await server.admin.rest(method, `/api/v1/secrets/${this.link.secret_id}${path}`, body);
    expect(status, path).to.be.within(200, 204);
  }
}

type Doing = Exclude<keyof Doings, "model" | "link">;

const usual: readonly Doing[] = [
  "put",
  "put",
  "rollBack",
  "archive",
  "delete",
  "expire",
  "restore",
  "restore",
  "force",
  "switchSync",
  "letTimePass",
  "restartWorker",
];

/** The row once nobody has anything to do. */
const settled = ({ id }: LinkRecord) =>
  eventually("the link comes to rest", async () => {
    const [row] = await server.sql(
      `select l.status, l.version, l.owned, l.last_error_code is null as "isWell" from secret_link l
       where l.id = $1 and l.claim_id is null and (l.due_at is null or l.due_at > now())`,
      [id],
    );
    return row;
  });

describe("A link to which anything may happen", () => {
  for (const seed of [1, randomInt(1, 2 ** 31)]) {
    it(`is in the state that the specification says, and its place has what it should: seed ${seed}`, async function () {
      this.timeout(120_000);
      const choose = chooser(seed);
      const receiver = await links.receiver();
      const place = new Place(receiver);
      const doings = new Doings(await links.of(toWebhook(receiver.url("/a"))), receiver.url(""));
      const { model } = doings;
      const done: string[] = [];
      const perform = async (doing: Doing) => {
        done.push(doing);
        await doings[doing]();
      };

      for (let step = 0; step < steps; step += 1) {
        place.mood = choose(moods);
        done.push(`the place is ${place.mood}`);
        if (choose([true, false, false, false, false, false])) await perform("move");
        for (let more = choose([1, 1, 2, 3]); more > 0; more -= 1) await perform(choose(usual));
        const row = await settled(doings.link);
        model.settle(place.confirms);

        const what = done.slice(-20).join(", ");
        expect(row.status, what).to.equal(model.status);
        if (row.status === "synced") {
          expect(row, what).to.include({ version: model.version, isWell: true });
          expect(place.held.get(model.path), what).to.equal(model.value);
        }
        if (row.version !== null) expect(row.version, what).to.equal(place.confirmed.get(model.path));
      }
      expect(place.mostAtOnce).to.equal(1);
    });
  }
});
