import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import type { Logger } from "pino";
import type {
  Assignment,
  CompleteTaskRequestSchema,
} from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { Applier, Permit, Assignment as TargetAssignment } from "../targets/drivers/driver.ts";
import { failureMessage } from "../targets/drivers/failure-message.ts";
import { rotate } from "../targets/drivers/rotate.ts";
import type { JsonSchema } from "../targets/settings.ts";
import { TargetError } from "../targets/target-error.ts";
import type { FindDriver, FoundDriver } from "./drivers/drivers.ts";

/** How a task went, as it is reported. */
export type Outcome = NonNullable<MessageInitShape<typeof CompleteTaskRequestSchema>["outcome"]> & { case: string };

interface PerformOptions {
  readonly findDriver: FindDriver;
  readonly permit: Permit;
  readonly logger: Logger;
}

/** Does a task by its driver. Throws what the permit ends with. */
export async function perform(
  assignment: Assignment,
  { findDriver, permit, logger }: PerformOptions,
): Promise<Outcome> {
  try {
    const driver = findDriver(assignment.driver);
    const minted = await done(driver.applier, checked(assignment, driver), assignment.type, permit);
    return { case: "succeeded", value: minted === undefined ? {} : { value: minted } };
  } catch (error) {
    permit.check();
    const { message, permanent, unchanged } = error instanceof TargetError ? error : unexpected(error as Error, logger);
    return { case: "failed", value: { message: failureMessage(message, assignment), permanent, unchanged } };
  }
}

/** Answers what the target made itself, if it did. */
async function done(applier: Applier, assignment: TargetAssignment, type: string, permit: Permit) {
  if (type === "rotate_secret") return await rotate(applier, assignment, permit);
  if (type !== "verify_secret") throw outdated(`this gateway knows no task ${type}: update it`);
  await applier.verify(assignment, permit);
  return undefined;
}

/** As the driver's schemas have it: the server may be another version than the gateway. */
function checked(assignment: Assignment, { settings, credentials }: FoundDriver): TargetAssignment {
  return {
    ...assignment,
    settings: understood(settings, assignment.settings),
    // Without any there is nothing to be understood: some drivers need none.
    credentials: isEmpty(assignment.credentials) ? {} : understood(credentials, assignment.credentials),
  };
}

const isEmpty = (given: JsonObject = {}) => Object.keys(given).length === 0;

function understood(schema: JsonSchema, given: JsonObject = {}): JsonObject {
  const { success, data } = schema.safeParse(given);
  if (success) return data;
  throw outdated("this gateway does not understand the settings of the driver: update it");
}

const outdated = (message: string) => new TargetError("invalid", message, { permanent: true, unchanged: true });

/** A fault of the program: of what it says, nobody knows whether it is secret, nor of what it did. */
function unexpected({ name, stack }: Error, logger: Logger) {
  const frames = stack?.split("\n").filter((line) => line.startsWith("    at "));
  logger.error({ type: name, stack: frames?.join("\n") }, "a driver failed unexpectedly");
  return { message: `unexpected: ${name}`, permanent: false, unchanged: false };
}
