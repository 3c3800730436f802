import { nothing } from "../settings.ts";
import type { Driver } from "./driver.ts";

/** For values that are used nowhere outside: there is nothing to do, and nothing that could be wrong. */
export const generatedValue = {
  settings: nothing,
  credentials: nothing,
  open: () => ({
    apply: async () => undefined,
    verify: async () => {},
  }),
} satisfies Driver;
