import { compare } from "./compare.ts";
import type { Effort } from "./options.ts";
import type { Holdfast, Stage } from "./stage.ts";
import { statementSubject } from "./statements.ts";
import { httpSubject, post } from "./subjects.ts";
import type { Line } from "./table.ts";

const secrets = 1000;
const callers = 16;

/** How many rotations that only make a value a server is asked for and does, beside the statements of that through pg alone. */
export async function measureGeneratedRotations(stage: Stage, server: Holdfast, effort: Effort): Promise<Line[]> {
  const { api, database } = server;
  const ids = await api.secrets(await api.project("asked"), secrets);
  await database.query("analyze secret, secret_version, data_key");
  const requests = ids.map((id) => post(`/api/v1/secrets/${id}/rotate`, {}, api.token));
  const ours = httpSubject("REST", server, stage.http(), { requests, expectedStatus: 200 });
  const floor = statementSubject("statements", stage.load("statement-load.ts"), server, "rotation");
  const against = [{ subject: floor, serverTime: true as const }];
  return compare({ name: "rotate to a generated value", ours, against }, { ...effort, connections: [1, callers] });
}
