import { version } from "../version.ts";

/** What the gateway calls itself. */
export const userAgent = `holdfast-gateway/${version}`;
