import type { JsonObject } from "@bufbuild/protobuf";
import { z } from "zod";
import { alphabetOf, charsetNames, type Generation, generateValue } from "../../standards/generated-value.ts";
import type { Driver } from "../../targets/drivers/driver.ts";
import { driverNames, drivers } from "../../targets/drivers/drivers.ts";
import { anyObject, integer, orElse } from "../../targets/settings.ts";
import { invalid, invalidField } from "../errors.ts";
import { checked } from "../wire/free-json.ts";

/** How a secret comes to a new value, and who brings that to where it is used. */
export interface Provider {
  /** Nobody, where the value is used nowhere outside. */
  readonly appliedBy: "nobody" | "server" | "gateway";
  /** Settings as they are kept: checked, and with what was left out. Throws VALIDATION_ERROR. */
  settings(given: JsonObject): JsonObject;
  /** Credentials that go with such settings, checked. Throws VALIDATION_ERROR. */
  credentials(given: JsonObject, settings: JsonObject): JsonObject;
  /** Throws VALIDATION_ERROR for checked settings that do not go together, or not with or without credentials. */
  checkTogether(settings: JsonObject, hasCredentials: boolean): void;
}

/** Where a value is brought to, and how. */
interface Target {
  readonly driverName: string;
  readonly driver: Driver;
  /** As the driver's schema left them. */
  readonly settings: JsonObject;
  /** Whether the target makes the values itself. */
  readonly mints: boolean;
}

const settingsField = "provider_settings";
const driverSettingsField = `${settingsField}.driver_settings`;
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

const generatedValue: Provider = {
  appliedBy: "nobody",
  settings: (given) => checked(ofGeneratedValue, given, settingsField),
  credentials: (given) => checked(z.strictObject({}), given, credentialsField),
  checkTogether() {},
};

const gateway: Provider = {
  appliedBy: "gateway",
  settings(given) {
    const { driver, driver_settings: own, ...rest } = checked(ofGateway, given, settingsField);
    return { driver, driver_settings: checked(driverNamed(driver).settings, own, driverSettingsField), ...rest };
  },
  credentials: (given, settings) => checked(targetOf("gateway", settings).driver.credentials, given, credentialsField),
  checkTogether(settings, hasCredentials) {
    const { driver, settings: own } = targetOf("gateway", settings);
    checkFaults(driver, own, hasCredentials, driverSettingsField);
  },
};

/** What the server does itself by a driver: how values are made stands beside the driver's own settings. */
const byServer = (driver: Driver): Provider => ({
  appliedBy: "server",
  settings(given) {
    const [ofGeneration, own] = separated(given);
    const settings = checked(driver.settings, own, settingsField);
    const makes = driver.mints?.(settings) === true ? z.strictObject({}) : ofGeneratedValue;
    return { ...settings, ...checked<JsonObject>(makes, ofGeneration, settingsField) };
  },
  credentials: (given) => checked(driver.credentials, given, credentialsField),
  checkTogether(settings, hasCredentials) {
    checkFaults(driver, separated(settings)[1], hasCredentials, settingsField);
  },
});

/** All that there are: the server can do by itself whatever a driver needs no more than a network for. */
const providers: Readonly<Record<string, Provider>> = {
  ...Object.fromEntries(
    Object.entries<Driver>(drivers).flatMap(([name, driver]) =>
      driver.open === undefined ? [] : [[name, byServer(driver)]],
    ),
  ),
  generated_value: generatedValue,
  gateway,
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

/** Whether rotating touches nothing outside, so that it is done within a transaction. */
export const isAppliedByNobody = (provider: string): boolean => providerNamed(provider).appliedBy === "nobody";

/** The driver that a kept configuration names. */
export function driverNamed(name: string): Driver {
  const found = (drivers as Readonly<Record<string, Driver>>)[name];
  if (found === undefined) throw new Error(`there is no driver ${name}`);
  return found;
}

/** The target of a configuration, by its checked settings. */
export function targetOf(provider: string, settings: JsonObject): Target {
  const ofDriver = settings as z.output<typeof ofGateway>;
  const isGateway = provider === "gateway";
  const driverName = isGateway ? ofDriver.driver : provider;
  const own = isGateway ? ofDriver.driver_settings : separated(settings)[1];
  const driver = driverNamed(driverName);
  return { driverName, driver, settings: own, mints: driver.mints?.(own) === true };
}

/** Where a target is, and its credentials are sent to, by what its settings call that; empty for a target that is in no network. */
export function addressOf(provider: string, settings: JsonObject): string {
  const { host, port, url } = targetOf(provider, settings).settings;
  if (typeof url === "string") return new URL(url).origin;
  return typeof host === "string" ? JSON.stringify([host, port]) : "";
}

/** A new value, made as checked settings say. */
export function newValue(provider: string, settings: JsonObject, previousValue: string): string {
  const password = generateValue(generationOf(settings));
  const { driver, settings: own } = targetOf(provider, settings);
  return driver.compose?.(password, own, previousValue) ?? password;
}

function generationOf(settings: JsonObject): Generation {
  const { length, charset, exclude_characters } = settings as z.output<typeof ofGeneratedValue>;
  return { length, charset, excludeCharacters: exclude_characters };
}

/** The settings of how values are made, and the others. */
function separated(settings: JsonObject): [ofGeneration: JsonObject, own: JsonObject] {
  const { ofGeneration = [], own = [] } = Object.groupBy(Object.entries(settings), ([name]) =>
    Object.hasOwn(generation, name) ? "ofGeneration" : "own",
  );
  return [Object.fromEntries(ofGeneration), Object.fromEntries(own)];
}

function checkFaults(driver: Driver, settings: JsonObject, hasCredentials: boolean, within: string): void {
  const faults = driver.faults?.(settings, hasCredentials) ?? [];
  if (faults.length > 0) throw invalid(faults.map(({ field, message }) => ({ field: `${within}.${field}`, message })));
}
