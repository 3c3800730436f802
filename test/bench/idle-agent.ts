import { setTimeout as sleep } from "node:timers/promises";
import { AgentHost } from "../agent/agent-host.ts";
import { newKeytab } from "../harness/keytabs.ts";
import { memoryMib } from "./processes.ts";
import type { Holdfast } from "./stage.ts";
import { atMost, type Line } from "./table.ts";

const keytabs = 20;
const idleMs = 10_000;
const mostMemoryMib = 80;

/** What an agent takes of its host when it has nothing to do: after a scan, with its command stream open. */
export async function measureIdleAgent({ api, port }: Holdfast): Promise<Line[]> {
  const host = new AgentHost();
  try {
    for (let n = 0; n < keytabs; n += 1) host.write(`${n}.keytab`, newKeytab());
    const { token } = await api.post("/agents/enrollment-tokens", {});
    const agent = host.start({ SERVER_URL: `http://127.0.0.1:${port}`, ENROLLMENT_TOKEN: token as string });
    // The folders that it watches only then are scanned once more.
    await agent.said("scanned", 1);
    await sleep(idleMs);
    const memory = memoryMib(agent.pid);
    if (memory === undefined) return [];
    return [
      {
        scenario: `idle agent with ${keytabs} keytabs: memory`,
        figure: memory.now,
        unit: "MiB",
        target: atMost(mostMemoryMib),
      },
    ];
  } finally {
    await host.close();
  }
}
