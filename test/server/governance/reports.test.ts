import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { GovernanceReportService } from "../../../gen/ts/holdfast/governance/v1/governance_report_service_pb.ts";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/governance/reports";

/** Requires a second factor, which the service does not offer. */
const strict = { mfa_policy: { min_enforcement_level: "required" } };
/** Holds as long as there are no secrets. */
const rotating = { rotation_policy: { require_rotation_enabled: true } };

async function imported(report: object = {}, by: Client = server.admin) {
  const { status, body } = await by.rest("POST", path, report);
  if (status !== 201) throw new Error(JSON.stringify(body));
  return body;
}
const read = (id: string, by: Client = server.admin) => by.rest("GET", `${path}/${id}`);
const currentOf = async (by: Client) => (await by.rest("GET", `${path}/current`)).body.id as string | undefined;
const eventOf = async (id: string, action: string) =>
  (await server.sql("select * from audit_event where resource_id = $1 and action = $2", [id, action]))[0];
/** The ids of a list of theirs, in its order. */
const listed = async (by: Client) =>
  (await by.rest("GET", `${path}?per_page=100`)).body.data.map(({ id }: { id: string }) => id) as string[];

describe("An imported governance report", () => {
  it("is answered with its evaluation, says where it is, and is recorded", async () => {
    const { status, headers, body } = await server.admin.rest("POST", path, strict);

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(`${path}/${body.id}`);
    expect(body).to.include({ is_current: true, imported_by: server.admin.id });
    expect(body.report).to.deep.equal(strict);
    expect(body.evaluation.status).to.equal("non_compliant");
    expect(body.evaluation.results[0]).to.include({
      rule: "mfa_policy.min_enforcement_level",
      required: "required",
      status: "failed",
    });
    expect(await eventOf(body.id, "governance_report.import")).to.include({
      outcome: "success",
      resource_type: "governance_report",
      actor_id: server.admin.id,
    });
  });

  it("is the current one until a newer one is, and becomes it again when that is deleted", async () => {
    const { admin } = await server.otherOrganization();
    const [first, second] = [await imported({}, admin), await imported(strict, admin)];
    expect(await currentOf(admin)).to.equal(second.id);
    expect((await read(first.id, admin)).body.is_current).to.equal(false);

    const deleted = await admin.rest("DELETE", `${path}/${second.id}`);

    expect(deleted.status).to.equal(204);
    expect(await currentOf(admin)).to.equal(first.id);
    expect((await read(first.id, admin)).body.is_current).to.equal(true);
    expect((await read(second.id, admin)).status).to.equal(404);
    expect(await listed(admin)).to.deep.equal([first.id]);
    expect(await eventOf(second.id, "governance_report.delete")).to.include({ outcome: "success" });
  });

  it("is not there before the first one, nor after the last one was deleted", async () => {
    const { admin } = await server.otherOrganization();
    const before = await admin.rest("GET", `${path}/current`);
    const { id } = await imported({}, admin);
    await admin.rest("DELETE", `${path}/${id}`);

    const after = await admin.rest("GET", `${path}/current`);

    for (const { status, body } of [before, after]) {
      expect(status).to.equal(404);
      expect(body.error).to.include({ code: "RESOURCE_NOT_FOUND", message: "governance report not found" });
    }
  });

  it("has its place among those that are imported at the same time: one of them is the current one", async () => {
    const { admin } = await server.otherOrganization();

    const reports = await Promise.all(Array.from({ length: 8 }, () => imported({}, admin)));

    const { body } = await admin.rest("GET", `${path}?per_page=100`);
    const times = body.data.map(({ imported_at: at }: { imported_at: string }) => Date.parse(at)) as number[];
    expect(new Set(times).size).to.equal(8);
    expect(times).to.deep.equal(times.toSorted((one, other) => other - one));
    expect(body.data.map(({ is_current }: { is_current: boolean }) => is_current)).to.deep.equal(
      body.data.map((_: unknown, index: number) => index === 0),
    );
    expect(reports.map(({ id }) => id)).to.have.members(await listed(admin));
  });

  it("is the current one when it is answered last, however long it took to be kept", async () => {
    const { admin } = await server.otherOrganization();
    await server.sql(
      `create function keep_slowly() returns trigger language plpgsql as
         'begin if new.report ? ''mfa_policy'' then perform pg_sleep(0.6); end if; return new; end'`,
    );
    await server.sql(
      "create trigger slow before insert on governance_report for each row execute function keep_slowly()",
    );
    const answered: string[] = [];
    const importing = async (report: object) => answered.push((await imported(report, admin)).id);

    const slow = importing(strict);
    await sleep(200);
    await Promise.all([slow, importing({})]);

    expect(await currentOf(admin)).to.equal(answered.at(-1));
    await server.sql("drop trigger slow on governance_report");
  });

  it("is replayed under its Idempotency-Key, and kept once", async () => {
    const { admin } = await server.otherOrganization();
    const key = { "idempotency-key": randomUUID() };
    const report = { ...strict, certificate_policy: { max_validity_days: 90 }, session_policy: {} };
    const first = await admin.rest("POST", path, report, key);

    const again = await admin.rest("POST", path, report, key);

    expect(again.headers.get("idempotency-replayed")).to.equal("true");
    expect(again.body).to.deep.equal(first.body);
    expect(await listed(admin)).to.deep.equal([first.body.id]);
  });

  it("is replayed byte by byte, with empty groups and lists, by whichever door it came in", async () => {
    const key = { "idempotency-key": randomUUID() };
    const report = {
      certificate_policy: { allowed_algorithms: [] },
      naming_policy: { required_patterns: [] },
      mfa_policy: {},
    };
    const send = async () => {
      const response = await fetch(`${server.url}${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${server.admin.token}`, "content-type": "application/json", ...key },
        body: JSON.stringify(report),
      });
      return [response.headers.get("idempotency-replayed"), await response.text()] as const;
    };
    const grpc = server.admin.grpc(GovernanceReportService);
    const mask = { paths: ["report.certificate_policy.allowed_algorithms", "report.naming_policy.required_patterns"] };

    const [first, again] = [await send(), await send()];
    const over = await grpc.importGovernanceReport(
      { report: { certificatePolicy: {}, namingPolicy: {}, mfaPolicy: {} }, updateMask: mask },
      server.admin.metadata(key),
    );

    grpc.close();
    expect(JSON.parse(first[1]).report).to.deep.equal(report);
    expect(again).to.deep.equal(["true", first[1]]);
    expect(over.id).to.equal(JSON.parse(first[1]).id);
  });

  it("is another request with an empty list than without", async () => {
    const key = { "idempotency-key": randomUUID() };
    await server.admin.rest("POST", path, { naming_policy: {} }, key);

    const { status } = await server.admin.rest("POST", path, { naming_policy: { required_patterns: [] } }, key);

    expect(status).to.equal(409);
  });
});

describe("The list of governance reports", () => {
  it("has the newest first, by pages, with all but the single violations", async () => {
    const { admin } = await server.otherOrganization();
    const reports = [];
    for (const report of [{}, strict, rotating]) reports.push(await imported(report, admin));
    const [oldest, middle, newest] = reports;

    const first = await admin.rest("GET", `${path}?per_page=2`);
    const second = await admin.rest("GET", `${path}?per_page=2&page=2`);

    expect(first.body.pagination).to.deep.equal({ page: 1, per_page: 2, total: 3 });
    const [result] = middle.evaluation.results;
    expect(result.violations).not.to.deep.equal([]);
    const withoutViolations = { ...middle.evaluation, results: [{ ...result, violations: [] }] };
    expect(first.body.data).to.deep.equal([newest, { ...middle, is_current: false, evaluation: withoutViolations }]);
    expect(second.body.data).to.deep.equal([{ ...oldest, is_current: false }]);
  });
});

describe("The evaluation of a governance report", () => {
  it("is made anew on demand and kept, of a report that is not the current one too", async () => {
    const { admin, projectId } = await server.otherOrganization();
    const { id, evaluation: before } = await imported(rotating, admin);
    await imported({}, admin);
    await server.secret({ project_id: projectId }, admin);

    const { status, body } = await admin.rest("POST", `${path}/${id}/evaluate`);

    expect(status).to.equal(200);
    expect(before.status).to.equal("compliant");
    expect(body).to.include({ id, is_current: false });
    expect(body.evaluation.status).to.equal("non_compliant");
    expect(body.evaluation.evaluated_at > before.evaluated_at).to.equal(true);
    expect((await read(id, admin)).body).to.deep.equal(body);
    const { details } = await eventOf(id, "governance_report.evaluate");
    expect(JSON.parse(details)).to.deep.equal({ from: "compliant", to: "non_compliant" });
  });

  it("does not replace one that was begun later", async () => {
    const { admin, projectId } = await server.otherOrganization();
    const { id } = await imported(rotating, admin);
    await server.secret({ project_id: projectId }, admin);
    const later = new Date(Date.now() + 60_000).toISOString();
    await server.sql(
      "update governance_report set evaluation = evaluation || jsonb_build_object('evaluated_at', $2::text) where id = $1",
      [id, later],
    );

    const { status, body } = await admin.rest("POST", `${path}/${id}/evaluate`);

    expect(status).to.equal(200);
    expect(body.evaluation).to.include({ status: "compliant", evaluated_at: later });
    expect((await read(id, admin)).body).to.deep.equal(body);
  });

  it("does not come of a report that is not there", async () => {
    const { status } = await server.admin.rest("POST", `${path}/${randomUUID()}/evaluate`);

    expect(status).to.equal(404);
  });
});

describe("A governance report of another organization", () => {
  it("is as unknown as one that does not exist, and is neither listed nor current", async () => {
    const [ours, theirs] = [await server.otherOrganization(), await server.otherOrganization()];
    const { id } = await imported(strict, theirs.admin);
    const requests: [string, string][] = [
      ["GET", `${path}/${id}`],
      ["POST", `${path}/${id}/evaluate`],
      ["DELETE", `${path}/${id}`],
      ["GET", `${path}/current`],
    ];

    const statuses = [];
    for (const [method, at] of requests) statuses.push((await ours.admin.rest(method, at)).status);

    expect(statuses).to.deep.equal([404, 404, 404, 404]);
    expect(await listed(ours.admin)).to.deep.equal([]);
    const mine = await imported({}, ours.admin);
    expect(await currentOf(ours.admin)).to.equal(mine.id);
    expect(await currentOf(theirs.admin)).to.equal(id);
    expect((await read(id, theirs.admin)).body.is_current).to.equal(true);
  });

  it("counts nothing of what is here", async () => {
    const [ours, theirs] = [await server.otherOrganization(), await server.otherOrganization()];
    await server.secret({ project_id: ours.projectId }, ours.admin);

    const { evaluation } = await imported(rotating, theirs.admin);

    expect(evaluation.results[0]).to.include({ status: "not_applicable", checked: 0 });
  });
});

describe("Governance reports", () => {
  const reading = (id: string): [string, string][] => [
    ["GET", path],
    ["GET", `${path}/current`],
    ["GET", `${path}/${id}`],
  ];
  const writing = (id: string): [string, string, object?][] => [
    ["POST", path, {}],
    ["POST", `${path}/${id}/evaluate`],
    ["DELETE", `${path}/${id}`],
  ];
  const statusesOf = async (by: Client, requests: readonly [string, string, object?][]) => {
    const statuses = [];
    for (const [method, at, body] of requests) statuses.push((await by.rest(method, at, body)).status);
    return statuses;
  };

  it("are read by auditors, who change nothing of them, and attempts to are recorded", async () => {
    const { id } = await imported();
    const auditor = await server.as("auditor-of-reports", ["auditor"]);

    expect(await statusesOf(auditor, reading(id))).to.deep.equal([200, 200, 200]);
    expect(await statusesOf(auditor, writing(id))).to.deep.equal([403, 403, 403]);
    expect(await server.auditTrail()).to.include.members([
      "auditor-of-reports governance_report.import denied",
      "auditor-of-reports governance_report.evaluate denied",
      "auditor-of-reports governance_report.delete denied",
    ]);
  });

  it("are nothing for an administrator of a project only, nor for nobody", async () => {
    const { id } = await imported();
    const projectRoles = [{ project_id: server.projectId, role: "admin" }];
    const inProject = await server.as("administrator-of-a-project", { projectRoles });

    expect(await statusesOf(inProject, [...reading(id), ...writing(id)])).to.deep.equal(Array(6).fill(403));
    expect(await statusesOf(server.anonymous, [...reading(id), ...writing(id)])).to.deep.equal(Array(6).fill(401));
  });
});
