import {
  CipherCountSchema,
  ExpiringKeytabSchema,
  type KeytabDashboard,
  KeytabDashboardSchema,
  KeytabFindingsSchema,
  KeytabOverviewSchema,
  KeytabService,
} from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import type { Json } from "../commands/options.ts";
import { printRecord, printRecords, printRestRecord, say, timeText } from "../output.ts";
import { openSession } from "../session.ts";

export async function dashboard({ json }: Json): Promise<void> {
  const summary = await openSession()(KeytabService).getKeytabDashboard({});
  if (json) return printRestRecord(KeytabDashboardSchema, summary);
  printCounts(summary);
  say("");
  printRecords(
    CipherCountSchema,
    summary.cipherDistribution,
    [
      ["TYPE", ({ cipher }) => cipher],
      ["KEYTABS", ({ count }) => String(count)],
    ],
    {},
  );
  if (summary.expiringKeytabs.length === 0) return;
  say("");
  printRecords(
    ExpiringKeytabSchema,
    summary.expiringKeytabs,
    [
      ["EXPIRING", ({ name }) => name],
      ["PRINCIPAL", ({ principal }) => principal],
      ["AT", ({ expiresAt }) => timeText(expiresAt)],
      ["DAYS LEFT", ({ daysRemaining }) => String(daysRemaining)],
      ["ID", ({ id }) => id],
    ],
    {},
  );
}

function printCounts({ overview, findings }: KeytabDashboard): void {
  if (overview !== undefined) {
    printRecord(
      KeytabOverviewSchema,
      overview,
      [
        ["keytabs", ({ total }) => String(total)],
        ["active", ({ active }) => String(active)],
        ["  expiring soon", ({ expiringSoon }) => String(expiringSoon)],
        ["expired", ({ expired }) => String(expired)],
        ["disabled", ({ disabled }) => String(disabled)],
        ["non-compliant", ({ nonCompliant }) => String(nonCompliant)],
        ["warning", ({ warning }) => String(warning)],
      ],
      {},
    );
  }
  if (findings === undefined) return;
  say("");
  say("on hosts:");
  printRecord(
    KeytabFindingsSchema,
    findings,
    [
      ["world readable", ({ worldReadable }) => String(worldReadable)],
      ["group readable", ({ groupReadable }) => String(groupReadable)],
      ["wrong owner", ({ wrongOwner }) => String(wrongOwner)],
      ["on several hosts", ({ sharedKey }) => String(sharedKey)],
      ["old key versions", ({ oldKvnos }) => String(oldKvnos)],
      ["behind another key version", ({ kvnoBehind }) => String(kvnoBehind)],
    ],
    {},
  );
}
