import { timestampNow } from "@bufbuild/protobuf/wkt";
import type { SyncStatus, SyncTarget } from "../../gen/ts/holdfast/links/v1/link_service_pb.ts";
import { timeText } from "./output.ts";
import { tableText } from "./table.ts";
import type { View } from "./watch.ts";

/** The targets of a secret as a table. */
export const syncText = ({ targets }: SyncStatus): string =>
  targets.length === 0 ? "there are no links\n" : `${targetTable(targets)}\n`;

const targetTable = (targets: readonly SyncTarget[]): string =>
  tableText(
    ["TARGET", "INTEGRATION", "NAME", "ENVIRONMENT", "STATUS", "VERSION", "SYNCED", "ERROR"],
    targets.map((target) => [
      target.targetId,
      target.integration,
      target.name,
      target.environment ?? "-",
      target.status,
      target.version === undefined ? "-" : String(target.version),
      timeText(target.lastSynced),
      errorOf(target),
    ]),
  );

const errorOf = ({ lastError }: SyncTarget): string =>
  lastError === undefined ? "" : `${lastError.code}: ${lastError.message}`;

/** The targets of a secret while somebody watches them. */
export const syncView: View<SyncStatus> = {
  text: syncText,
  states: ({ targets }) =>
    new Map(
      targets.map((target) => {
        const { targetId, integration, name } = target;
        return [targetId, { subject: `${integration} ${name || targetId}`, state: stateOf(target) }];
      }),
    ),
  time: () => timeText(timestampNow()),
};

function stateOf(target: SyncTarget): string {
  const version = target.version === undefined ? [] : [`version ${target.version}`];
  const error = target.status === "failed" ? [errorOf(target)] : [];
  return [target.status, ...version, ...error].join(", ");
}

/** Whether nothing is about to happen: a target that failed is tried again later. */
export const isSettled = ({ targets }: SyncStatus): boolean =>
  targets.every(({ status }) => ["synced", "failed", "disabled"].includes(status));

export const hasFailed = ({ targets }: SyncStatus): boolean => targets.some(({ status }) => status === "failed");
