import type { Driver } from "./driver.ts";

/** For values that are used nowhere outside: there is nothing to do, and nothing that could be wrong. */
export const generatedValue: Driver = {
  apply: async () => undefined,
  verify: async () => {},
};
