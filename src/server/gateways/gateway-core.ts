import type { Core } from "../context.ts";
import type { GatewayWork } from "./gateway-work.ts";
import type { Timing } from "./timing.ts";

/** What the parts of this context are built from. */
export interface GatewayCore extends Pick<Core, "audit" | "db" | "logger" | "wakes"> {
  readonly timing: Timing;
  readonly work: GatewayWork;
}
