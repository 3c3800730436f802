import { addAbortListener } from "node:events";
import type { Logger } from "pino";
import { endpointsOf } from "../client/machine-settings.ts";
import { ProgramFault } from "../client/program.ts";
import { type LoggedIn, stayLoggedIn } from "../client/stay-logged-in.ts";
import { Outbound } from "../outbound/outbound.ts";
import { machineClock } from "../targets/machine-clock.ts";
import { Authority } from "./authority.ts";
import { driversOf } from "./drivers/drivers.ts";
import { userAgent } from "./identity.ts";
import { Link } from "./link.ts";
import { Metrics } from "./metrics.ts";
import { Probes } from "./probes.ts";
import { Registration } from "./registration.ts";
import { Session, Superseded } from "./session.ts";
import type { Settings } from "./settings.ts";
import { TaskRunner } from "./task-runner.ts";

const now = machineClock;

/** For what runs when the program is told to stop. */
const drainMs = 10_000;

/** Of a process that another one has taken the place of: started again, it would take over in its turn. */
const supersededStatus = 3;

/** Rotates secrets near their targets, for as long as it runs and the server lets it. */
export class Gateway {
  readonly #settings: Settings;
  readonly #logger: Logger;
  readonly #authority: Authority;
  readonly #metrics: Metrics;
  readonly #registration: Registration;
  readonly #link = new Link();
  readonly #runner: TaskRunner;
  readonly #over = new AbortController();
  #session: Session | undefined;
  #isStopping = false;

  constructor(settings: Settings, logger: Logger) {
    const { concurrency, commands, allowedNetworks, certificateAuthorities } = settings;
    this.#settings = settings;
    this.#logger = logger;
    this.#authority = new Authority({ now, logger, onTerm: () => this.#runner.wake() });
    this.#metrics = new Metrics(this.#authority);
    this.#registration = new Registration(settings);
    this.#runner = new TaskRunner({
      concurrency,
      now,
      authority: this.#authority,
      registration: this.#registration,
      link: this.#link,
      findDriver: driversOf({ commands, outbound: new Outbound({ allowed: allowedNetworks, certificateAuthorities }) }),
      metrics: this.#metrics,
      logger,
      onRefusal: () => this.#session?.askNow(),
    });
  }

  /** Runs until `stop` is aborted and what runs then has ended. Throws a ProgramFault. */
  async run(stop: AbortSignal): Promise<void> {
    const { serverUrls, certificateAuthorities, credentials } = this.#settings;
    const probes = await this.#probe();
    using _ = addAbortListener(stop, () => void this.#drain());
    try {
      await stayLoggedIn({
        noun: "gateway",
        userAgent,
        endpoints: endpointsOf(serverUrls, certificateAuthorities),
        credentials: () => credentials,
        serve: (session) => this.#serve(session),
        logger: this.#logger,
        signal: this.#over.signal,
      });
    } finally {
      probes?.close();
    }
    const { reason } = this.#over.signal;
    if (!(reason instanceof Superseded)) return;
    await this.#runner.drain(0);
    throw new ProgramFault(reason.message, supersededStatus);
  }

  async #serve(loggedIn: LoggedIn): Promise<void> {
    this.#session = new Session({
      ...loggedIn,
      now,
      registration: this.#registration,
      authority: this.#authority,
      link: this.#link,
      runner: this.#runner,
      metrics: this.#metrics,
      logger: this.#logger,
    });
    try {
      await this.#session.run();
    } catch (error) {
      if (error instanceof Superseded) this.#over.abort(error);
      throw error;
    }
  }

  async #drain(): Promise<void> {
    this.#isStopping = true;
    await this.#runner.drain(drainMs);
    this.#over.abort();
  }

  async #probe(): Promise<Probes | undefined> {
    const { probes: place } = this.#settings;
    if (place === undefined) return undefined;
    const authority = this.#authority;
    const readiness = () => ({
      isReady: authority.leaseLeftMs > 0 && !this.#isStopping,
      activationStatus: authority.activationStatus ?? null,
    });
    const probes = new Probes({ readiness, metrics: this.#metrics });
    const { address, port } = await probes.listen(place);
    this.#logger.info({ address, port }, "listening");
    return probes;
  }
}
