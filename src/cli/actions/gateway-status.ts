import {
  type GatewayHealth,
  GatewayHealthSchema,
  GatewayService,
} from "../../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import type { Json } from "../commands/options.ts";
import { healthStates, healthText } from "../gateway-health.ts";
import { print, printRestRecord, timeText } from "../output.ts";
import { openSession } from "../session.ts";
import { longestLookMs, type View, watch } from "../watch.ts";

export interface GatewayStatusOptions extends Json {
  readonly watch?: boolean;
}

const view: View<GatewayHealth> = {
  text: healthText,
  states: healthStates,
  time: ({ generatedAt }) => timeText(generatedAt),
};

export async function status({ watch: isWatched, json }: GatewayStatusOptions): Promise<void> {
  if (isWatched) process.once("SIGINT", () => process.exit(0));
  const gateways = openSession()(GatewayService);
  const look = () => gateways.getGatewayHealth({}, isWatched ? { timeoutMs: longestLookMs } : {});
  const health = await look();
  if (isWatched) await watch(health, look, view);
  else if (json) printRestRecord(GatewayHealthSchema, health);
  else print(healthText(health));
}
