import { setTimeout as sleep } from "node:timers/promises";
import type { Effort } from "./options.ts";
import { Receiver } from "./receiver.ts";
import type { Replicas, Stage } from "./stage.ts";
import { percentiles } from "./subjects.ts";
import type { Line } from "./table.ts";

const secrets = 30;
/** Between two changes: longer than what follows a delivery. */
const pauseMs = 30;
/** After which it does not happen any more. */
const longestMs = 10_000;

/**
 * How long it takes from a call that changes a value until it is answered, and until a webhook that the secret is linked to
 * has the value. The two replicas, which do nothing else, are called in turn, one change after the other.
 */
export async function measureDeliveries(stage: Stage, replicas: Replicas, { changes }: Effort): Promise<Line[]> {
  const [{ api }] = replicas;
  const receiver = await Receiver.open(1);
  stage.endsWith(() => receiver.close());
  const [port] = receiver.ports as [number];
  const ids = await api.secrets(await api.project("delivered"), secrets);
  const delivered = ids.map((id) => receiver.next(id));
  await api.linked(ids, () => port);
  await Promise.all(delivered);

  const [answered, received]: [number[], number[]] = [[], []];
  for (let n = 0; n < changes; n += 1) {
    await sleep(pauseMs);
    const id = ids[n % secrets] as string;
    const replica = replicas[n % 2] as Replicas[number];
    const delivery = Promise.race([receiver.next(id), tooLate()]);
    const beganAt = performance.now();
    await replica.api.put(`/secrets/${id}`, { value: `value ${n}` });
    answered.push(performance.now() - beganAt);
    received.push((await delivery) - beganAt);
  }
  return [
    line(`change a value until it is answered, ${changes} times`, answered),
    line(`change a value until a webhook has it, ${changes} times`, received),
  ];
}

async function tooLate(): Promise<never> {
  await sleep(longestMs, undefined, { ref: false });
  throw new Error("a value was not delivered");
}

function line(scenario: string, took: readonly number[]): Line {
  const { p50, p99 } = percentiles(Float64Array.from(took).sort());
  return { scenario, figure: p50, unit: "ms", p50, p99 };
}
