import type { Task } from "../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import type { RotationConfig } from "../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import { type Column, timeText } from "./output.ts";

/** As in "gateway of production". */
const providerOf = ({ provider, gatewayEnvironment }: RotationConfig): string =>
  gatewayEnvironment === undefined ? provider : `${provider} of ${gatewayEnvironment}`;

const errorOf = ({ lastError }: RotationConfig): string =>
  lastError === undefined ? "" : `${lastError.code}: ${lastError.message}`;

const yesOrNo = (is: boolean): string => (is ? "yes" : "no");

const days = (count: number | undefined): string => (count === undefined ? "-" : `${count} days`);

/** Columns of a table of configurations; `names` says what the secrets are called, by their ids. */
export const rotationColumns = (names: ReadonlyMap<string, string>): Column<RotationConfig>[] => [
  ["KEY", ({ secretId }) => names.get(secretId) ?? secretId],
  ["PROVIDER", providerOf],
  ["ENABLED", ({ enabled }) => yesOrNo(enabled)],
  ["NEXT", ({ nextRotation }) => timeText(nextRotation)],
  ["LAST", ({ lastRotated }) => timeText(lastRotated)],
  ["STATUS", ({ lastStatus }) => lastStatus],
  ["FAILURES", ({ consecutiveFailures }) => String(consecutiveFailures)],
  ["ERROR", errorOf],
];

/** The lines of one configuration. */
export const configLines: readonly Column<RotationConfig>[] = [
  ["secret", ({ secretId }) => secretId],
  ["configuration", ({ id }) => id],
  ["provider", providerOf],
  ["credentials", ({ hasCredentials }) => yesOrNo(hasCredentials)],
  ["enabled", ({ enabled }) => yesOrNo(enabled)],
  ["interval", ({ intervalDays }) => days(intervalDays)],
  ["grace period", ({ gracePeriodDays }) => days(gracePeriodDays)],
  ["next rotation", ({ nextRotation }) => timeText(nextRotation)],
  ["last rotation", ({ lastRotated }) => timeText(lastRotated)],
  ["last status", ({ lastStatus }) => lastStatus],
  ["failures", ({ consecutiveFailures }) => String(consecutiveFailures)],
  ["last error", (config) => errorOf(config) || "-"],
];

/** Columns of the tasks of a configuration. */
export const taskColumns: readonly Column<Task>[] = [
  ["TASK", ({ id }) => id],
  ["STATUS", ({ status }) => status],
  ["ATTEMPT", ({ attempt, maxAttempts }) => `${attempt} of ${maxAttempts}`],
  ["CREATED", ({ createdAt }) => timeText(createdAt)],
  ["FINISHED", ({ finishedAt }) => timeText(finishedAt)],
  ["ERROR", ({ error }) => error ?? ""],
];
