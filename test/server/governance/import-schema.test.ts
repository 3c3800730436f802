import { expect } from "chai";
import fc from "fast-check";
import { useServer } from "../../harness/server.ts";
import { type Fault, faultSets, faults, type Json, validReports } from "./report-schema.ts";

const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const server = useServer();
const path = "/api/v1/governance/reports";

const importReport = (body: Json) => server.admin.rest("POST", path, body);

/** As the body itself, or as its only property. */
const inForm = (isWrapped: boolean, report: Json) => (isWrapped ? { report } : report);

/** In any order: the paths that a refusal tells. */
async function pathsOf(body: Json): Promise<string[]> {
  const answer = await importReport(body);
  expect(answer.status, JSON.stringify(answer.body)).to.equal(400);
  expect(answer.body.error.code).to.equal("VALIDATION_ERROR");
  return answer.body.error.details.map(({ field }: { field: string }) => field).sort();
}

describe(`The import of a governance report, seed ${seed}`, function () {
  this.timeout(60_000);

  it("answers every valid report exactly as it came, empty groups and lists too, and so does whoever reads it", async () => {
    await fc.assert(
      fc.asyncProperty(validReports, fc.boolean(), async (report, isWrapped) => {
        const { status, body } = await importReport(inForm(isWrapped, report));
        expect(status, JSON.stringify(body)).to.equal(201);
        const read = await server.admin.rest("GET", `${path}/${body.id}`);

        expect(body.report).to.deep.equal(report);
        expect(read.body).to.deep.equal(body);
      }),
      { seed, numRuns: 60 },
    );
  });

  it("names the path of whatever may be wrong, in both forms", async () => {
    const broken: string[] = [];
    const check = async ({ what, path: expected, apply }: Fault, isWrapped: boolean) => {
      const told = await pathsOf(inForm(isWrapped, apply({}))).catch((error: unknown) => [String(error)]);
      if (told.length !== 1 || told[0] !== expected) broken.push(`${what}: ${told.join(", ")}`);
    };
    for (const [index, fault] of faults.entries()) await check(fault, index % 2 === 0);

    expect(faults.length).to.be.above(400);
    expect(broken).to.deep.equal([]);
  });

  it("names all that is wrong at once, and nothing of what is right beside it", async () => {
    await fc.assert(
      fc.asyncProperty(validReports, faultSets, fc.boolean(), async (report, found, isWrapped) => {
        const broken = found.reduce((before, { apply }) => apply(before), report);

        expect(await pathsOf(inForm(isWrapped, broken))).to.deep.equal(found.map((fault) => fault.path).sort());
      }),
      { seed, numRuns: 60 },
    );
  });

  it("keeps nothing of what it refused", async () => {
    const { body } = await server.admin.rest("GET", `${path}?per_page=1`);
    await importReport({ password_policy: { foo: 1 } });

    const after = await server.admin.rest("GET", `${path}?per_page=1`);

    expect(after.body.pagination.total).to.equal(body.pagination.total);
  });
});
