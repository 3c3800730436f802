import type { Context } from "../context.ts";
import { GovernanceReport } from "./governance-report.ts";

export const governance: Context = {
  entities: [GovernanceReport],
};
