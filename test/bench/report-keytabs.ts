import { randomUUID, randomUUIDv7 } from "node:crypto";
import type { Found } from "../harness/host.ts";
import { someFiles } from "../server/discovery/files.ts";
import { ConnectedAgent } from "./connected-agent.ts";
import { copyIn } from "./copy-in.ts";
import type { Credentials } from "./load.ts";
import type { Effort } from "./options.ts";
import { inTurns } from "./rates.ts";
import type { Holdfast } from "./stage.ts";
import type { Line } from "./table.ts";

const filesInReport = 1000;
/** One after the other. */
const reportsInTurn = 10;

const copied = `floor.discovered_keytab (organization_id, agent_id, scan_id, file_path, root, keytab_hash, principal, realm,
  kvno, encryption_types, file_permissions, file_owner)`;

/** How fast what an agent reports is stored, beside as many new rows sent with COPY to a table with the same indexes. */
export async function measureReports({ api, port, database }: Holdfast, { rounds }: Effort): Promise<Line[]> {
  await database.query(
    "create table floor.discovered_keytab (like public.discovered_keytab including all) with (fillfactor = 50)",
  );
  const [credentials] = await api.agents(1);
  const agent = await ConnectedAgent.open(port, credentials as Credentials);
  const report = async (reports: readonly Found[][]) => {
    for (const keytabs of reports) await agent.reports.reportKeytabs({ scanId: randomUUIDv7(), keytabs });
    return reportsInTurn * filesInReport;
  };
  const copy = async (reports: readonly Buffer[]) => {
    for (const rows of reports) await copyIn(database, copied, rows);
    return reportsInTurn * filesInReport;
  };
  // All is made before anything is measured.
  const stock = <T>(make: () => T) => {
    const made = Array.from({ length: rounds + 1 }, make);
    return () => made.pop() as T;
  };
  const copies = () => stock(() => newReports().map(rowsOf));
  const [fresh, toCopy, toCopyNext, known] = [stock(newReports), copies(), copies(), newReports()];
  await report(known);
  const lines = [
    {
      scenario: `report new files, ${filesInReport} a call`,
      against: "COPY",
      ...(await inTurns(
        () => report(fresh()),
        () => copy(toCopy()),
        rounds,
      )),
    },
    {
      scenario: `report known files, ${filesInReport} a call`,
      against: "COPY",
      ...(await inTurns(
        () => report(known),
        () => copy(toCopyNext()),
        rounds,
      )),
    },
  ];
  agent.close();
  return lines;
}

let folders = 0;

const newReports = (): Found[][] =>
  Array.from({ length: reportsInTurn }, () => {
    folders += 1;
    return someFiles(filesInReport, `/etc/${folders}`);
  });

const [organizationId, agentId] = [randomUUID(), randomUUID()];

/** Rows of table discovered_keytab in PostgreSQL's text format. */
function rowsOf(files: readonly Found[]): Buffer {
  const scanId = randomUUIDv7();
  const rows = files.map(({ kvnos = [], encryptionTypes = [], ...file }) => [
    organizationId,
    agentId,
    scanId,
    file.filePath,
    file.root,
    file.keytabHash,
    file.principal,
    file.realm,
    Math.max(...kvnos),
    `{${encryptionTypes.join(",")}}`,
    file.filePermissions,
    file.fileOwner,
  ]);
  return Buffer.from(rows.map((row) => `${row.join("\t")}\n`).join(""));
}
