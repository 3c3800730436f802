import { enctypes } from "../../src/standards/enctypes.ts";
import type { Effort } from "./options.ts";
import type { Holdfast } from "./stage.ts";
import { median } from "./subjects.ts";
import type { Line } from "./table.ts";

/** Of these two, one approves of everything and one of nothing: whatever keytabs hold, their verdicts change. */
const policies = {
  non_compliant: ["nothing of the kind"],
  compliant: enctypes.map(({ name }) => name),
};

/**
 * How long it takes to check all keytabs of an organization, when all verdicts change and when none does, beside one
 * UPDATE of all of them without a time limit. What it leaves behind is vacuumed in between.
 */
export async function measureRefresh(
  { api, database }: Holdfast,
  organizationId: string,
  { rounds }: Effort,
): Promise<Line[]> {
  const update = `update keytab set cipher_compliance = $2, updated_at = now()
    where organization_id = $1 and deleted_at is null`;
  const refresh = async () =>
    (await api.post("/keytabs/refresh-compliance", {})) as { evaluated: number; updated: number };
  const [all, none, floor]: [number[], number[], number[]] = [[], [], []];
  let evaluated = 0;
  for (let round = 0; round < rounds; round += 1) {
    const [verdict, allowed] = Object.entries(policies)[round % 2] ?? [];
    await api.put("/keytabs/cipher-policy", {
      allowed_ciphers: allowed,
      deprecated_ciphers: [],
      enforcement_mode: "warn",
    });
    const [changing, changingSeconds] = await timed(refresh);
    const [, updateSeconds] = await timed(() => database.query(update, [organizationId, verdict]));
    await database.query("vacuum keytab");
    const [still, stillSeconds] = await timed(refresh);
    if (changing.updated !== changing.evaluated || still.updated !== 0)
      throw new Error(`not all verdicts changed, or some twice: ${JSON.stringify([changing, still])}`);
    evaluated = changing.evaluated;
    all.push(changingSeconds);
    floor.push(updateSeconds);
    none.push(stillSeconds);
  }
  const against = `one UPDATE (${median(floor).toFixed(2)} s)`;
  return [
    { scenario: `refresh ${evaluated} verdicts, all change`, figure: median(all), unit: "s", against },
    { scenario: `refresh ${evaluated} verdicts, none changes`, figure: median(none), unit: "s", against },
  ];
}

/** What came of it, and how many seconds it took. */
async function timed<T>(work: () => Promise<T>): Promise<[T, number]> {
  const beganAt = performance.now();
  const result = await work();
  return [result, (performance.now() - beganAt) / 1000];
}
