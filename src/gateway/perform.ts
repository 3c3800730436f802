import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Logger } from "pino";
import type { CompleteTaskRequestSchema } from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { type Assignment, DriverError, type Permit } from "./drivers/driver.ts";
import type { FindDriver } from "./drivers/drivers.ts";
import { withoutSecrets } from "./secret-texts.ts";

/** How a task went, as it is reported. */
export type Outcome = NonNullable<MessageInitShape<typeof CompleteTaskRequestSchema>["outcome"]> & { case: string };

interface PerformOptions {
  readonly findDriver: FindDriver;
  readonly permit: Permit;
  readonly logger: Logger;
}

const longestMessage = 1000;

/** Does a task by its driver. Throws what the permit ends with. */
export async function perform(
  assignment: Assignment,
  { findDriver, permit, logger }: PerformOptions,
): Promise<Outcome> {
  try {
    const driver = findDriver(assignment.driver);
    if (assignment.type === "verify_secret") {
      await driver.verify(assignment, permit);
      return { case: "succeeded", value: {} };
    }
    if (assignment.type !== "rotate_secret") {
      throw new DriverError(`this gateway knows no task ${assignment.type}: update it`, { permanent: true });
    }
    const minted = await driver.apply(assignment, permit);
    // What the target made is in use there: if it did not come back, nobody would know it.
    if (minted !== undefined) return { case: "succeeded", value: { value: minted } };
    await driver.verify(assignment, permit).catch(notVerified);
    return { case: "succeeded", value: {} };
  } catch (error) {
    permit.check();
    const { message, permanent } = error instanceof DriverError ? error : unexpected(error as Error, logger);
    return { case: "failed", value: { message: told(message, assignment), permanent } };
  }
}

function notVerified(error: unknown): never {
  if (!(error instanceof DriverError)) throw error;
  throw new DriverError(`the value was applied, but is not in use: ${error.message}`, error);
}

/** A fault of the program: of what it says, nobody knows whether it is secret. */
function unexpected({ name, stack }: Error, logger: Logger): Pick<DriverError, "message" | "permanent"> {
  const frames = stack?.split("\n").filter((line) => line.startsWith("    at "));
  logger.error({ type: name, stack: frames?.join("\n") }, "a driver failed unexpectedly");
  return { message: `unexpected: ${name}`, permanent: false };
}

/** Fit for the one line of a log or table. */
function told(message: string, assignment: Assignment): string {
  const line = withoutSecrets(message, assignment)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ")
    .trim();
  return [...line].slice(0, longestMessage).join("") || "no reason was given";
}
