import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import * as pb from "../../../gen/ts/holdfast/rotation/v1/rotation_template_service_pb.ts";
import { findProject } from "../auth/find-project.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { duplicate, notFound, Refusal, violates } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { mentions } from "../wire/update-mask.ts";
import { answerTemplate, type TemplateRow, type TemplateTerms } from "./rotation-template-record.ts";

const custodyByDefault = "local";

/** The methods of rotation_template_service.proto. */
export class RotationTemplateService implements ServiceImpl<typeof pb.RotationTemplateService> {
  async listRotationTemplates(request: pb.ListRotationTemplatesRequest, context: HandlerContext) {
    const call = callOf(context);
    const { organizationId, projectId, search, page, perPage } = request;
    checkOrganization(call, organizationId);
    if (projectId !== undefined) await authorizeFor(call, projectId);
    const where = new Conditions()
      .add("t.organization_id = ?", call.caller.organizationId)
      .add("t.project_id = ?", projectId)
      .add("t.project_id = any(?)", call.visibleProjects)
      .contains("t.name", search);
    const select = { columns: "t.*", from: "rotation_template t", where, orderBy: "t.is_default desc, t.name, t.id" };
    const { rows, pagination } = await fetchPage<TemplateRow>(call, select, { page, perPage });
    return { data: rows.map(answerTemplate), pagination };
  }

  async createRotationTemplate(request: pb.CreateRotationTemplateRequest, context: HandlerContext) {
    const call = callOf(context);
    const { organizationId, name, projectId = null, isDefault } = request;
    checkOrganization(call, organizationId);
    call.about({ name });
    if (isDefault) await lockDefault(call);
    await authorizeFor(call, projectId);
    if (isDefault) await replaceDefault(call);
    const [created] = await run<TemplateRow>(
      call.em,
      `insert into rotation_template (organization_id, created_by, name, description, project_id, rotation_interval_days,
         lead_time_days, grace_period_days, secret_custody_mode, is_default)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) returning *`,
      [
        call.caller.organizationId,
        call.caller.id,
        name,
        request.description,
        projectId,
        request.rotationIntervalDays ?? null,
        request.leadTimeDays ?? null,
        request.gracePeriodDays ?? null,
        request.secretCustodyMode ?? custodyByDefault,
        isDefault,
      ],
    ).catch(nameTaken);
    const row = created as TemplateRow;
    call.about({ id: row.id });
    return answerTemplate(row);
  }

  async getRotationTemplate({ id, organizationId }: pb.GetRotationTemplateRequest, context: HandlerContext) {
    const call = callOf(context);
    checkOrganization(call, organizationId);
    return answerTemplate(await findTemplate(call, id));
  }

  async updateRotationTemplate(request: pb.UpdateRotationTemplateRequest, context: HandlerContext) {
    const call = callOf(context);
    checkOrganization(call, request.organizationId);
    const mentioned = mentions(pb.UpdateRotationTemplateRequestSchema, request);
    // In the order in which everybody locks: what is waited for while the template is held may be waiting for it.
    if (mentioned("is_default") && request.isDefault) await lockDefault(call);
    const projectId = mentioned("project_id") ? (request.projectId ?? null) : undefined;
    if (projectId != null) await findProject(call, projectId, "project_id");
    const before = await findTemplate(call, request.id);
    const after = changed(before, request, mentioned);
    call.about({ name: after.name, ...(after.project_id !== null && { projectId: after.project_id }) });
    if (after.project_id !== before.project_id) call.authorizeIn(after.project_id);
    if (after.is_default && !before.is_default) await replaceDefault(call);
    return answerTemplate(await save(call, before, after));
  }

  async deleteRotationTemplate({ id, organizationId }: pb.DeleteRotationTemplateRequest, context: HandlerContext) {
    const call = callOf(context);
    checkOrganization(call, organizationId);
    await findTemplate(call, id);
    await run(call.em, "delete from rotation_template where id = $1 and organization_id = $2", [
      id,
      call.caller.organizationId,
    ]);
    return {};
  }
}

/** Nobody names another organization to read or write there (spec, "Rotation template"). */
function checkOrganization(call: Call, organizationId: string | undefined): void {
  if (organizationId === undefined || organizationId === call.caller.organizationId) return;
  const message = "must be the caller's own organization";
  throw new Refusal("PERMISSION_DENIED", `organization_id ${message}`, {
    details: [{ field: "organization_id", message }],
  });
}

/** Refuses unless the project, if any, is one of the organization in which the caller has the permission. */
async function authorizeFor(call: Call, projectId: string | null): Promise<void> {
  if (projectId !== null) await findProject(call, projectId, "project_id");
  call.authorizeIn(projectId);
}

/** Locked in a call that changes something. */
async function findTemplate(call: Call, id: string): Promise<TemplateRow> {
  const lock = call.policy?.readOnly ? "" : " for update";
  const [row] = await call.query<TemplateRow>(
    `select * from rotation_template where id = $1 and organization_id = $2${lock}`,
    [id, call.caller.organizationId],
  );
  if (row === undefined) throw notFound("rotation template");
  call.about({ id, name: row.name, ...(row.project_id !== null && { projectId: row.project_id }) });
  call.authorizeIn(row.project_id);
  return row;
}

/** Those who choose a default at the same time take turns on the organization's row. */
async function lockDefault(call: Call): Promise<void> {
  await run(call.em, "select 1 from organization where id = $1 for no key update", [call.caller.organizationId]);
}

/** Leaves no default, so that there can be another one: which it is, is decided for the whole organization. */
async function replaceDefault(call: Call): Promise<void> {
  call.authorizeIn(null);
  const [previous] = await run<{ id: string }>(
    call.em,
    `update rotation_template set is_default = false, updated_at = now()
     where organization_id = $1 and is_default returning id`,
    [call.caller.organizationId],
  );
  if (previous !== undefined) call.about({ details: { previous_default_id: previous.id } });
}

/** What is not mentioned stays as it is. */
function changed(
  before: TemplateRow,
  request: pb.UpdateRotationTemplateRequest,
  mentioned: (path: string) => boolean,
): TemplateTerms {
  const given = <Name extends keyof TemplateTerms>(name: Name, value: TemplateTerms[Name] | undefined) =>
    mentioned(name) && value !== undefined ? value : before[name];
  return {
    name: given("name", request.name),
    description: given("description", request.description ?? ""),
    project_id: given("project_id", request.projectId ?? null),
    rotation_interval_days: given("rotation_interval_days", request.rotationIntervalDays ?? null),
    lead_time_days: given("lead_time_days", request.leadTimeDays ?? null),
    grace_period_days: given("grace_period_days", request.gracePeriodDays ?? null),
    secret_custody_mode: given("secret_custody_mode", request.secretCustodyMode),
    is_default: given("is_default", request.isDefault),
  };
}

/** Keeps what is different; `updated_at` stands when nothing is. */
async function save(call: Call, before: TemplateRow, after: TemplateTerms): Promise<TemplateRow> {
  const names = Object.keys(after) as (keyof TemplateTerms)[];
  if (names.every((name) => after[name] === before[name])) return before;
  const [row] = await run<TemplateRow>(
    call.em,
    `update rotation_template set name = $3, description = $4, project_id = $5, rotation_interval_days = $6,
       lead_time_days = $7, grace_period_days = $8, secret_custody_mode = $9, is_default = $10, updated_at = now()
     where id = $1 and organization_id = $2 returning *`,
    [
      before.id,
      before.organization_id,
      after.name,
      after.description,
      after.project_id,
      after.rotation_interval_days,
      after.lead_time_days,
      after.grace_period_days,
      after.secret_custody_mode,
      after.is_default,
    ],
  ).catch(nameTaken);
  return row as TemplateRow;
}

function nameTaken(error: unknown): never {
  throw violates(error, "rotation_template_name_key")
    ? duplicate("name", "already exists in this organization")
    : error;
}
