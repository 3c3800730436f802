import { setTimeout as sleep } from "node:timers/promises";
import { judge, type Verdict } from "./evidence.ts";
import { Feed } from "./feed.ts";
import { environment, type Installation, type Site } from "./installation.ts";
import { Timeline } from "./timeline.ts";

/** How long what happened took, in seconds, and what became of the work. */
export interface Report {
  /** From the kill until the primary counted as failed. */
  readonly detection: number;
  /** From the operator's command until the DR gateway had done something. */
  readonly takeover: number;
  /** From the kill until then. */
  readonly outage: number;
  /** From the operator's command until the primary had done something again. */
  readonly failback: number;
  readonly verdict: Verdict;
}

interface Health {
  readonly environments: readonly {
    readonly active_gateway_id: string | null;
    readonly tasks: { readonly pending: number; readonly running: number };
  }[];
  readonly gateways: readonly {
    readonly id: string;
    readonly name: string;
    readonly activation_status: string;
    readonly healthy: boolean;
  }[];
}

/** What anything may take beyond the time that it should, on a machine that has other things to do. */
const patienceMs = 120_000;
const lookEveryMs = 100;
const tasksOfAWhile = 15;

/** A failover and its way back, on an installation of its own. */
export class Drill {
  readonly installation: Installation;
  readonly #failedAfterMs: number;
  readonly #timeline = new Timeline();

  /** `failedAfter` is the silence in seconds after which the installation counts a gateway as failed. */
  constructor(installation: Installation, failedAfter: number) {
    this.installation = installation;
    this.#failedAfterMs = failedAfter * 1000;
  }

  async run(): Promise<Report> {
    await this.#begin();
    const feed = new Feed(this.installation);
    await this.#workOn("primary");
    const killed = await this.#killPrimary();
    const detected = await this.#detectFailure();
    const [asked, tookOver] = await this.#operate("activate", "dr");
    await this.#workOn("dr");
    await this.#returnOfPrimary();
    const [askedBack, cameBack] = await this.#operate("failback", "primary");
    await this.#workOn("primary");
    await feed.stop();
    await this.#until(
      "all tasks have ended",
      ({ environments: [it] }) => it?.tasks.pending === 0 && it.tasks.running === 0,
    );
    this.#timeline.mark("all tasks have ended");
    return {
      detection: detected - killed,
      takeover: tookOver - asked,
      outage: tookOver - killed,
      failback: cameBack - askedBack,
      verdict: judge(await this.installation.evidence(feed.accepted)),
    };
  }

  async #begin(): Promise<void> {
    const { installation } = this;
    await installation.start();
    this.#timeline.mark(`a server listens at ${installation.url}`);
    installation.startGateway("primary");
    await this.#until("the primary is active", (health) => statusOf(health, "primary") === "active");
    installation.startGateway("dr");
    await this.#until("the DR gateway stands by", (health) => statusOf(health, "dr") === "standby");
    this.#timeline.mark("the primary is active, the DR gateway stands by");
  }

  async #killPrimary(): Promise<number> {
    await this.#until("the primary is at work", ({ environments: [it] }) => (it?.tasks.running ?? 0) > 1);
    await this.installation.killGateway("primary");
    const killed = this.#timeline.mark("the primary is killed (kill -9) amid its work");
    const { environments } = await this.#health();
    const { running, pending } = environments[0]?.tasks ?? {};
    this.#timeline.mark(`its tasks: ${running} running, ${pending} waiting`);
    return killed;
  }

  /** An operator who is too quick is refused meanwhile. */
  async #detectFailure(): Promise<number> {
    const refusal = await this.installation.holdfast(`failover activate ${environment} --yes`).then(
      () => undefined,
      ({ message }: Error) => message.trim().replace(/^.*holdfast: /s, ""),
    );
    if (refusal === undefined) throw new Error("the DR gateway was activated although the primary had not failed");
    this.#timeline.mark(`activating the DR gateway is refused: ${refusal}`);
    const isFailed = (health: Health) => statusOf(health, "primary") === "failed";
    await this.#until("the primary has failed", isFailed, this.#failedAfterMs + patienceMs);
    return this.#timeline.mark("the primary has failed; its tasks wait");
  }

  /** Has an operator move the environment to a site; answers when that was asked for, and when work was done there. */
  async #operate(command: "activate" | "failback", site: Site): Promise<[asked: number, done: number]> {
    const line = `failover ${command} ${environment} --yes --reason drill`;
    const before = await this.#countDoneBy(site);
    const asked = this.#timeline.mark(`holdfast ${line}`);
    this.#timeline.mark((await this.installation.holdfast(line)).split("\n").join(", "));
    await this.#workDoneBy(site, before + 1);
    return [asked, this.#timeline.mark(`${site} has done its first task`)];
  }

  async #returnOfPrimary(): Promise<void> {
    this.installation.startGateway("primary");
    this.#timeline.mark("the primary is started again");
    await this.#until("the primary is back", ({ gateways }) =>
      gateways.some(({ name, healthy }) => name === "primary" && healthy),
    );
    this.#timeline.mark("the primary is back, and stays out of service");
  }

  /** Lets a site work for a while. */
  async #workOn(site: Site): Promise<void> {
    await this.#workDoneBy(site, (await this.#countDoneBy(site)) + tasksOfAWhile);
    this.#timeline.mark(`${site} has done ${tasksOfAWhile} tasks`);
  }

  async #workDoneBy(site: Site, count: number): Promise<void> {
    await this.#until(`${site} has done ${count} tasks`, async () => (await this.#countDoneBy(site)) >= count);
  }

  async #countDoneBy(site: Site): Promise<number> {
    const gateway = (await this.#health()).gateways.find(({ name }) => name === site);
    return (await this.installation.get(`/api/v1/admin/gateways/${gateway?.id}/tasks?status=succeeded&limit=500`))
      .length;
  }

  #health(): Promise<Health> {
    return this.installation.get("/api/v1/admin/gateway-health");
  }

  async #until(
    what: string,
    isSo: (health: Health) => boolean | Promise<boolean>,
    withinMs = patienceMs,
  ): Promise<void> {
    for (const start = performance.now(); performance.now() - start < withinMs; await sleep(lookEveryMs)) {
      if (await isSo(await this.#health())) return;
    }
    throw new Error(`not within ${withinMs / 1000} s: ${what}`);
  }
}

const statusOf = ({ gateways }: Health, site: Site) => gateways.find(({ name }) => name === site)?.activation_status;
