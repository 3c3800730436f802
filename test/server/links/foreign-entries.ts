import { expect } from "chai";
import { eventually } from "../../harness/program.ts";
import type { TestServer } from "../../harness/server.ts";
import { answers, breaksOff } from "../../harness/trouble.ts";
import { chooser } from "./link-model.ts";
import type { LinkRecord, Links } from "./links.ts";
import { type SharedPlace, theirs } from "./shared-places.ts";

interface Known {
  readonly link: LinkRecord;
  readonly place: SharedPlace;
  readonly entry: string;
}

const entries = ["ours_1", "ours_2", "ours_3", "ours_4", ...Object.keys(theirs)];
const troubles = [answers(500), answers(429), breaksOff({ done: false }), breaksOff({ done: true })];

/** Links that come and go, some to entries of others, while secrets change and places have their troubles. */
export class LinksAmongOthers {
  readonly #server: TestServer;
  readonly #links: Links;
  readonly #places: readonly SharedPlace[];
  readonly #choose: ReturnType<typeof chooser>;
  readonly #known: Known[] = [];
  readonly #secretIds: string[] = [];
  /** What nobody may touch: what others have made, and what links left behind. */
  readonly #untouchable = new Map<SharedPlace, Map<string, string | undefined>>();
  /** By whom. */
  readonly #left = new Map<SharedPlace, Map<string, string>>();
  /** Ids of the links that had something confirmed where they lead. */
  readonly #makers = new Set<string>();
  readonly #doings: readonly (() => Promise<void>)[] = [
    () => this.#link(),
    () => this.#link(),
    () => this.#write(),
    () => this.#force(),
    () => this.#leave(),
    () => this.#purge(),
    () => this.#move(),
  ];
  #written = 0;
  /** How many of each there were: nothing is shown where everything is refused. */
  readonly counts = { synced: 0, foreign: 0, purged: 0 };

  constructor(server: TestServer, links: Links, places: readonly SharedPlace[], seed: number) {
    this.#server = server;
    this.#links = links;
    this.#places = places;
    this.#choose = chooser(seed);
    for (const place of places) {
      this.#untouchable.set(place, new Map(Object.entries(theirs)));
      this.#left.set(place, new Map());
    }
  }

  async run(steps: number): Promise<void> {
    for (let made = 0; made < 3; made += 1) this.#secretIds.push((await this.#server.secret()).id);
    for (let step = 0; step < steps; step += 1) {
      if (this.#choose([true, false, false])) this.#choose(this.#places).trouble(this.#choose(troubles));
      await this.#choose(this.#doings)();
      await this.#settle();
      await this.#check();
    }
  }

  async #link(): Promise<void> {
    const [place, entry] = [this.#choose(this.#places), this.#choose(entries)];
    const { integration, credentials } = place;
    const body = { integration, credentials, config: place.config(entry) };
    const { status, body: link } = await this.#links.post(this.#choose(this.#secretIds), body);
    expect(status).to.be.oneOf([201, 409]);
    if (status === 201) this.#known.push({ link, place, entry });
  }

  async #write(): Promise<void> {
    this.#written += 1;
    const value = `value ${this.#written}`;
    await this.#server.admin.rest("PUT", `/api/v1/secrets/${this.#choose(this.#secretIds)}`, { value });
  }

  async #force(): Promise<void> {
    await this.#server.admin.rest("POST", `/api/v1/secrets/${this.#choose(this.#secretIds)}/force-sync`, {});
  }

  /** Whatever it has written stays, and is nobody's from then on. */
  async #leave(): Promise<void> {
    const known = this.#take();
    if (known === undefined) return;
    expect((await this.#links.delete(known.link)).status).to.equal(204);
    this.#giveUp(known);
  }

  async #purge(): Promise<void> {
    const known = this.#take();
    if (known === undefined) return;
    const { status } = await this.#links.delete(known.link, "?purge=true");
    if (status === 503) this.#known.push(known);
    else this.counts.purged += 1;
  }

  async #move(): Promise<void> {
    const known = this.#take();
    if (known === undefined) return;
    const entry = this.#choose(entries);
    const { status, body: link } = await this.#links.put(known.link, { config: known.place.config(entry) });
    this.#known.push(status === 200 ? { ...known, link, entry } : known);
    if (status !== 200 || entry === known.entry) return;
    this.#giveUp(known);
    // Back where it has left something it finds its own.
    if (this.#left.get(known.place)?.get(entry) === link.id) this.#untouchable.get(known.place)?.delete(entry);
  }

  #take(): Known | undefined {
    const [known] = this.#known.splice(this.#choose([...this.#known.keys(), 0]), 1);
    return known;
  }

  /** What it has made is nobody's; an entry that it shared with others was made by the one that had it confirmed. */
  #giveUp(known: Known): void {
    const { place, entry } = known;
    const others = this.#known.filter((other) => other.place === place && other.entry === entry);
    if (!this.#makers.has(known.link.id) && others.length > 0) return;
    this.#makers.delete(known.link.id);
    if (place.read(entry) === undefined) return;
    this.#untouchable.get(place)?.set(entry, place.read(entry));
    this.#left.get(place)?.set(entry, known.link.id);
  }

  async #settle(): Promise<void> {
    await eventually("all links come to rest", async () => {
      const rows = await this.#server.sql("select 1 from secret_link where claim_id is not null or due_at <= now()");
      return rows.length === 0 || undefined;
    });
  }

  async #check(): Promise<void> {
    for (const [place, kept] of this.#untouchable)
      for (const [entry, value] of kept) expect(place.read(entry), `${place.integration} ${entry}`).to.equal(value);
    for (const { link, place, entry } of this.#known) {
      const { status, version, last_error } = await this.#links.get(link);
      if (last_error?.code === "foreign") this.counts.foreign += 1;
      if (status !== "synced") continue;
      this.counts.synced += 1;
      this.#makers.add(link.id);
      const { body: secret } = await this.#server.admin.rest("GET", `/api/v1/secrets/${link.secret_id}`);
      expect(version).to.equal(secret.version);
      expect(place.read(entry), `${place.integration} ${entry}`).to.equal(secret.value);
    }
  }
}
