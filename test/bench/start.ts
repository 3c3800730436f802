import { join } from "node:path";
import type { Effort } from "./options.ts";
import { startHoldfast } from "./processes.ts";
import type { Stage } from "./stage.ts";
import { median } from "./subjects.ts";
import { atMost, type Line } from "./table.ts";

/** How long the embedded default takes from the command to "healthy": on a new folder, and on one that has data. */
export async function measureStart(stage: Stage, { rounds }: Effort): Promise<Line[]> {
  const settings = { DATA_DIR: join(stage.folder, "embedded") };
  const first = await startAndStop(stage, settings);
  const next: number[] = [];
  for (let n = 0; n < rounds; n += 1) next.push(await startAndStop(stage, settings));
  return [
    { scenario: "start to healthy, new folder", figure: first / 1000, unit: "s" },
    { scenario: "start to healthy, with data", figure: median(next) / 1000, unit: "s", target: atMost(2) },
  ];
}

async function startAndStop(stage: Stage, settings: Record<string, string>): Promise<number> {
  const server = await startHoldfast(settings);
  stage.endsWith(() => server.stop());
  await server.stop();
  return server.healthyAfterMs;
}
