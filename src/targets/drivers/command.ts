import { z } from "zod";
import { anyObject, orElse } from "../settings.ts";
import type { Driver } from "./driver.ts";

/** Runs a command that whoever runs the gateway has allowed by this name; nobody else can. */
export const command = {
  settings: z.strictObject({
    command: z
      .string()
      .regex(
        /^[a-z0-9][a-z0-9_-]{0,62}$/,
        "must be 1 to 63 lower-case letters, digits, - or _, not beginning with - or _",
      ),
    parameters: orElse(anyObject, {}),
  }),
  credentials: anyObject,
} satisfies Driver;
