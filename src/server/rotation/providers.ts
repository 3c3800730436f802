import type { JsonObject } from "@bufbuild/protobuf";
import { z } from "zod";
import { alphabetOf, charsetNames, type Generation } from "../../standards/generated-value.ts";
import { invalidField } from "../errors.ts";
import { type Driver, driverNames, drivers } from "./drivers.ts";
import { anyObject, checked, integer, orElse } from "./free-json.ts";

/** How a secret comes to a new value, and who brings that to where it is used. */
export interface Provider {
  readonly appliedBy: "server" | "gateway";
  /** Settings as they are kept: checked, and with what was left out. Throws VALIDATION_ERROR. */
  settings(given: JsonObject): JsonObject;
  /** Credentials that go with such settings, checked. Throws VALIDATION_ERROR. */
  credentials(given: JsonObject, settings: JsonObject): JsonObject;
}

const settingsField = "provider_settings";
const credentialsField = "credentials";
const fewestCharacters = 2;

/** Settings of all that make values here. */
const generation = {
  length: orElse(integer(8, 256), 32),
  charset: orElse(z.enum(charsetNames), "alphanumeric"),
  exclude_characters: orElse(z.string().max(256), ""),
};
const leavesCharacters = z.refine<z.output<z.ZodObject<typeof generation>>>(
  ({ charset, exclude_characters: excludeCharacters }) =>
    alphabetOf({ charset, excludeCharacters }).length >= fewestCharacters,
  { path: ["exclude_characters"], error: `must leave at least ${fewestCharacters} characters of the charset` },
);

const ofGeneratedValue = z.strictObject(generation).check(leavesCharacters);
const ofGateway = z
  .strictObject({ driver: z.enum(driverNames), driver_settings: orElse(anyObject, {}), ...generation })
  .check(leavesCharacters);

/** All that there are. A new provider is one line here. */
const providers: Readonly<Record<string, Provider>> = {
  generated_value: {
    appliedBy: "server",
    settings: (given) => checked(ofGeneratedValue, given, settingsField),
    credentials: (given) => checked(z.strictObject({}), given, credentialsField),
  },
  gateway: {
    appliedBy: "gateway",
    settings(given) {
      const { driver, driver_settings: own, ...rest } = checked(ofGateway, given, settingsField);
      const settings = checked<JsonObject>(drivers[driver].settings, own, `${settingsField}.driver_settings`);
      return { driver, driver_settings: settings, ...rest };
    },
    credentials: (given, settings) => checked(drivers[driverOf(settings).name].credentials, given, credentialsField),
  },
};

/** Throws VALIDATION_ERROR naming those that there are. */
export function providerNamed(name: string): Provider {
  const found = Object.hasOwn(providers, name) ? providers[name] : undefined;
  if (found === undefined) throw invalidField("provider", `must be one of ${Object.keys(providers).join(", ")}`);
  return found;
}

/** How every secret is rotated unless it says otherwise. */
export const usualProvider = "generated_value";
export const usualSettings = providerNamed(usualProvider).settings({});

/** How checked settings say that values are made. */
export function generationOf(settings: JsonObject): Generation {
  const { length, charset, exclude_characters } = settings as z.output<typeof ofGeneratedValue>;
  return { length, charset, excludeCharacters: exclude_characters };
}

/** The driver that checked settings of the provider "gateway" name, its own settings, and whether its target makes the values. */
export function driverOf(settings: JsonObject) {
  const { driver, driver_settings } = settings as z.output<typeof ofGateway>;
  const { mints }: Driver = drivers[driver];
  return { name: driver, settings: driver_settings, mints: mints?.(driver_settings) === true };
}
