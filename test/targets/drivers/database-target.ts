import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Outbound } from "../../../src/outbound/outbound.ts";
import type { Assignment, Driver } from "../../../src/targets/drivers/driver.ts";
import { TargetError } from "../../../src/targets/target-error.ts";
import { loopback } from "../../outbound/network.ts";
import { assignmentOf } from "./assignment.ts";

export const outbound = new Outbound({ allowed: loopback });

/** An assignment with settings and credentials as the server keeps them: checked, and with what was left out. */
export function assignmentFor(driver: Driver, settings: JsonObject, fields: Partial<Assignment> = {}): Assignment {
  const { credentials } = fields;
  return assignmentOf({
    ...fields,
    settings: driver.settings.parse(settings),
    ...(credentials === undefined ? {} : { credentials: driver.credentials.parse(credentials) }),
  });
}

/** Why it failed. */
export async function failure(work: Promise<unknown>): Promise<TargetError> {
  const error = await work.then(
    () => expect.fail("it succeeded"),
    (error: unknown) => error,
  );
  expect(error).to.be.instanceOf(TargetError);
  return error as TargetError;
}

/** What is wrong with settings, each with its field. */
export function wrongFields(driver: Driver, settings: JsonObject, hasCredentials = true): string[] {
  const { success, data, error } = driver.settings.safeParse(settings);
  if (!success) return error.issues.map(({ path }) => path.join("."));
  return driver.faults?.(data, hasCredentials).map(({ field }) => field) ?? [];
}
