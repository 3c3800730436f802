/** How a gateway of the model is. */
export interface Modelled {
  readonly name: string;
  readonly environment: string;
  readonly role: "primary" | "dr-standby";
  status: "active" | "standby" | "failed";
  deactivated: boolean;
  retired: boolean;
  /** Seconds that it has been silent for. */
  silent: number;
  /** Which event it was last heard at. */
  heardAt: number;
}

const threshold = 3;

/**
 * What gaps 8.2 to 8.6 say of gateways and environments, in memory: each event answers what a caller must be told. It
 * shares nothing with the server.
 */
export class FailoverModel {
  readonly gateways: Modelled[] = [];
  /** How many tokens each environment has had. */
  readonly tokens = new Map<string, number>();
  readonly #timeout: number;
  #events = 0;

  /** `timeout` is that of heartbeats, in seconds. */
  constructor(timeout: number) {
    this.#timeout = timeout;
  }

  /** A gateway of a new name. */
  register(name: string, environment: string, role: Modelled["role"]): "ok" | "taken" {
    this.#events += 1;
    let status: Modelled["status"] = "standby";
    if (role === "primary") {
      const first = this.#primary(environment);
      if (first !== undefined && (first.status === "active" || this.#talks(first))) return "taken";
      if (first !== undefined) first.retired = true;
      else if (this.active(environment) === undefined) status = "active";
    }
    const heardAt = this.#events;
    this.gateways.push({ name, environment, role, status, deactivated: false, retired: false, silent: 0, heardAt });
    if (status === "active") this.#newToken(environment);
    return "ok";
  }

  /** A known gateway registers, as a new process or as the same one. */
  registerAgain(gateway: Modelled, isRestart: boolean): "ok" | "retired" {
    if (gateway.retired) return "retired";
    this.#hear(gateway);
    if (isRestart && gateway.status === "active") this.#newToken(gateway.environment);
    return "ok";
  }

  heartbeat(gateway: Modelled): "ok" | "retired" {
    if (gateway.retired) return "retired";
    this.#hear(gateway);
    if (gateway.role === "dr-standby" && gateway.status === "failed") gateway.status = "standby";
    return "ok";
  }

  /** So many more seconds of silence, and the monitor has looked. */
  silence(gateway: Modelled, seconds: number): void {
    gateway.silent += seconds;
    if (!gateway.retired && gateway.silent >= this.#timeout * threshold) gateway.status = "failed";
  }

  activateDr(environment: string, named?: Modelled): 200 | 404 | 409 {
    const members = this.of(environment);
    const candidates = members.filter(({ role }) => role === "dr-standby");
    if (candidates.length === 0) return 404;
    if (named !== undefined && !candidates.includes(named)) return 404;
    const primary = this.#primary(environment);
    if (primary === undefined || this.active(environment) !== undefined) return 409;
    if (primary.status !== "failed" || (this.#talks(primary) && !primary.deactivated)) return 409;
    const ready = candidates.filter((each) => each.status === "standby" && this.#talks(each));
    const chosen =
      named === undefined
        ? ready.filter(({ deactivated }) => !deactivated).toSorted((a, b) => b.heardAt - a.heardAt)[0]
        : ready.find((each) => each === named);
    if (chosen === undefined) return 409;
    this.#comeIntoService(chosen);
    return 200;
  }

  failback(environment: string): 200 | 404 | 409 {
    const primary = this.#primary(environment);
    if (primary === undefined) return 404;
    if (primary.status === "active" || !this.#talks(primary)) return 409;
    const active = this.active(environment);
    if (active !== undefined) active.status = "standby";
    this.#comeIntoService(primary);
    return 200;
  }

  deactivate(gateway: Modelled, markFailed: boolean): 200 | 404 {
    if (gateway.retired) return 404;
    if (markFailed && gateway.role === "primary") gateway.status = "failed";
    else if (gateway.status === "active") gateway.status = "standby";
    gateway.deactivated = true;
    return 200;
  }

  retire(gateway: Modelled): 204 | 404 | 409 {
    if (gateway.retired) return 404;
    if (gateway.status === "active") return 409;
    gateway.retired = true;
    return 204;
  }

  /** The gateways of an environment that are not retired. */
  of(environment: string): Modelled[] {
    return this.gateways.filter((each) => each.environment === environment && !each.retired);
  }

  active(environment: string): Modelled | undefined {
    return this.of(environment).find(({ status }) => status === "active");
  }

  #primary(environment: string): Modelled | undefined {
    return this.of(environment).find(({ role }) => role === "primary");
  }

  #comeIntoService(gateway: Modelled): void {
    gateway.status = "active";
    gateway.deactivated = false;
    this.#newToken(gateway.environment);
  }

  #talks({ silent }: Modelled): boolean {
    return silent < this.#timeout;
  }

  #newToken(environment: string): void {
    this.tokens.set(environment, (this.tokens.get(environment) ?? 0) + 1);
  }

  #hear(gateway: Modelled): void {
    this.#events += 1;
    gateway.silent = 0;
    gateway.heardAt = this.#events;
  }
}
