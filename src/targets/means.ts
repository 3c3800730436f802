import type { Outbound } from "../outbound/outbound.ts";
import { version } from "../version.ts";

/** What targets are reached with. */
export interface Means {
  readonly outbound: Outbound;
}

/** How requests say who sends them. */
export const userAgent = `holdfast/${version}`;
