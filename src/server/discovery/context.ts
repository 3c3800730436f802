import type { Context } from "../context.ts";
import { DiscoveredKeytab } from "./discovered-keytab.ts";

export const discovery: Context = {
  entities: [DiscoveredKeytab],
};
