import { setTimeout as sleep } from "node:timers/promises";
import type { Assignment } from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { ConnectedGateway } from "./connected-gateway.ts";
import type { GatewayAccount } from "./load.ts";
import type { Effort } from "./options.ts";
import { inParallel } from "./parallel.ts";
import type { Holdfast } from "./stage.ts";
import { percentiles } from "./subjects.ts";
import type { Line } from "./table.ts";

const waitingTasks = 100;
/** After which it does not happen any more. */
const longestFailoverMs = 10_000;

interface Claimed {
  readonly assignment: Assignment;
  readonly at: number;
}

/** A gateway that claims one task as soon as it may, each time that it is asked to. */
class Claimer {
  readonly #gateway: ConnectedGateway;
  #waiting: PromiseWithResolvers<Claimed> | undefined;

  constructor(gateway: ConnectedGateway) {
    this.#gateway = gateway;
  }

  /** Claims the first task that it hears of from now on. */
  claimsNext(): Promise<Claimed> {
    this.#waiting = Promise.withResolvers();
    return Promise.race([this.#waiting.promise, tooLate()]);
  }

  /** Goes by every notice of tasks that wait. */
  async heard(): Promise<void> {
    const waiting = this.#waiting;
    if (waiting === undefined || !this.#gateway.isActive) return;
    this.#waiting = undefined;
    try {
      const assignment = await this.#gateway.claim();
      if (assignment === undefined) throw new Error("there is nothing to claim");
      waiting.resolve({ assignment, at: performance.now() });
    } catch (error) {
      waiting.reject(error);
    }
  }
}

/**
 * How long it takes from the call that activates the DR gateway to its first task: it hears of both over its stream, and
 * claims at once. Each time that task is completed and queued anew, and the environment returns to its primary.
 */
export async function measureFailovers({ api, port }: Holdfast, { failovers }: Effort): Promise<Line[]> {
  const accounts = await api.gateways(2, "failover");
  const [primary, dr] = await Promise.all(accounts.map((account) => ConnectedGateway.open(port, account)));
  if (primary === undefined || dr === undefined) throw new Error("there are no two gateways");
  const { environment } = accounts[0] as GatewayAccount;
  const failover = (operation: string) => api.post(`/admin/failover/${environment}/${operation}`, {});
  const configs = await api.rotatedSecrets(waitingTasks, environment);
  const queue = (configId: string) => api.post(`/rotation/configs/${configId}/execute`, {});
  const ids = [...configs.values()];
  await inParallel(ids.length, (n) => queue(ids[n] as string));
  const claimer = new Claimer(dr);
  await dr.watch(({ case: kind }) => void (kind === "tasksWaiting" && claimer.heard()));

  const [answered, running]: [number[], number[]] = [[], []];
  for (let n = 0; n < failovers; n += 1) {
    await api.post(`/admin/gateways/${primary.id}/deactivate`, { mark_failed: true });
    const claiming = claimer.claimsNext();
    const beganAt = performance.now();
    await failover("activate-dr");
    answered.push(performance.now() - beganAt);
    const { assignment, at } = await claiming;
    running.push(at - beganAt);
    await dr.complete(assignment);
    await queue(configs.get(assignment.secretId) as string);
    await Promise.all([primary.heartbeat(), dr.heartbeat()]);
    await failover("failback");
  }
  for (const gateway of [primary, dr]) gateway.close();
  return [line("activate-dr until it is answered", answered), line("activate-dr to the first task running", running)];
}

async function tooLate(): Promise<never> {
  await sleep(longestFailoverMs, undefined, { ref: false });
  throw new Error("the DR gateway has no task yet");
}

function line(scenario: string, took: readonly number[]): Line {
  const { p50, p99 } = percentiles(Float64Array.from(took).sort());
  return { scenario: `${scenario}, ${took.length} times`, figure: p50, unit: "ms", p50, p99 };
}
