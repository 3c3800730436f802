import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { LockMode } from "@mikro-orm/core";
import * as pb from "../../../gen/ts/holdfast/auth/v1/project_service_pb.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { timestampOf } from "../db/timestamp.ts";
import { conflict, duplicate, notFound, violates } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { mentions } from "../wire/update-mask.ts";
import { Project } from "./project.ts";

interface Row {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly description: string;
  readonly key_scope: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Those that are deleted or whose life is over, with their keys; a secret that is being restored meanwhile stays. */
const removeEndedSecrets = `with removed as (
    delete from secret
    where project_id = $1 and organization_id = $2 and (status = 'deleted' or expires_at <= now()) returning id)
  delete from data_key where organization_id = $2 and record_id in (select id from removed)`;

/** By a cursor: without one each batch would come past all rows that those before it have left behind. */
const findCertificates = `declare leaving no scroll cursor for
  select id from certificate where project_id = $1 and organization_id = $2`;
const fetchCertificates = "fetch 5000 from leaving";
const removeCertificates =
  "update certificate set project_id = null where id = any($1::uuid[]) and organization_id = $2";

/** The methods of project_service.proto. */
export class ProjectService implements ServiceImpl<typeof pb.ProjectService> {
  async createProject({ name, description, keyScope = "project" }: pb.CreateProjectRequest, context: HandlerContext) {
    const call = callOf(context);
    const [row] = await run<Row>(
      call.em,
      "insert into project (organization_id, name, description, key_scope) values ($1, $2, $3, $4) returning *",
      [call.caller.organizationId, name, description, keyScope],
    ).catch(nameTaken);
    const created = answerRow(row as Row);
    call.about({ id: created.id, name, projectId: created.id });
    return created;
  }

  async listProjects({ search, page, perPage }: pb.ListProjectsRequest, context: HandlerContext) {
    const call = callOf(context);
    const where = new Conditions()
      .add("organization_id = ?", call.caller.organizationId)
      .add("id = any(?)", call.visibleProjects)
      .contains("name", search);
    const { rows, pagination } = await fetchPage<Row>(
      call,
      { columns: "*", from: "project", where, orderBy: "name, id" },
      { page, perPage },
    );
    return { data: rows.map(answerRow), pagination };
  }

  async getProject({ id }: pb.GetProjectRequest, context: HandlerContext) {
    return answer(await findProject(callOf(context), id));
  }

  async updateProject(request: pb.UpdateProjectRequest, context: HandlerContext) {
    const call = callOf(context);
    const project = await findProject(call, request.id);
    const mentioned = mentions(pb.UpdateProjectRequestSchema, request);
    if (request.name !== undefined && mentioned("name")) project.name = request.name;
    if (mentioned("description")) project.description = request.description ?? "";
    const keyScope = mentioned("key_scope") ? request.keyScope : undefined;
    if (keyScope !== undefined && keyScope !== project.keyScope) {
      project.keyScope = keyScope as Project["keyScope"];
      await moveKeys(call, project);
    }
    project.updatedAt = call.now;
    await call.em.flush().catch(nameTaken);
    return answer(project);
  }

  async deleteProject(request: pb.DeleteProjectRequest, context: HandlerContext) {
    const call = callOf(context);
    const project = await findProject(call, request.id);
    const own = [project.id, project.organizationId];
    await run(call.em, removeEndedSecrets, own);
    await run(call.em, "delete from role_binding where project_id = $1 and organization_id = $2", own);
    await letCertificatesGo(call, project);
    call.em.remove(project);
    await call.em.flush().catch((error: unknown) => {
      const held = ["secret", "keytab"].find((kind) => violates(error, `${kind}_project_id_foreign`));
      throw held === undefined ? error : conflict(`the project holds ${held}s`);
    });
    return {};
  }
}

/** Locked in a call that changes something, so that a secret is not created in a project that is being removed. */
async function findProject(call: Call, id: string): Promise<Project> {
  const options = call.policy?.readOnly ? {} : { lockMode: LockMode.PESSIMISTIC_WRITE };
  const project = await call.em.findOne(Project, { id }, options);
  if (project === null) throw notFound("project");
  call.about({ id: project.id, name: project.name, projectId: project.id });
  call.authorizeIn(project.id);
  return project;
}

/** Its certificates stay with the organization. They leave in batches, since a statement must end within 2.2 s. */
async function letCertificatesGo(call: Call, { id, organizationId }: Project): Promise<void> {
  await run(call.em, findCertificates, [id, organizationId]);
  const fetch = () => run<{ id: string }>(call.em, fetchCertificates, []);
  for (let batch = await fetch(); batch.length > 0; batch = await fetch()) {
    await run(call.em, removeCertificates, [batch.map((certificate) => certificate.id), organizationId]);
  }
}

/** What makes a key unique follows the project's key_scope; keys that would then collide keep it as it is. */
async function moveKeys(call: Call, project: Project): Promise<void> {
  const environment = project.keyScope === "environment" ? "coalesce(environment, '')" : "''";
  const move = `update secret set key_environment = ${environment} where project_id = $1 and organization_id = $2`;
  await run(call.em, move, [project.id, project.organizationId]).catch((error: unknown) => {
    if (!violates(error, "secret_project_id_key_key")) throw error;
    const message = "cannot be project while a key is used in several environments";
    throw conflict(`key_scope ${message}`, [{ field: "key_scope", message }]);
  });
}

function nameTaken(error: unknown): never {
  throw violates(error, "project_organization_id_name_key")
    ? duplicate("name", "already exists in this organization")
    : error;
}

const answer = ({ id, organizationId, name, description, keyScope, createdAt, updatedAt }: Project) => ({
  id,
  organizationId,
  name,
  description,
  keyScope,
  createdAt: timestampFromDate(createdAt),
  updatedAt: timestampFromDate(updatedAt),
});

const answerRow = (row: Row) => ({
  id: row.id,
  organizationId: row.organization_id,
  name: row.name,
  description: row.description,
  keyScope: row.key_scope,
  createdAt: timestampOf(row.created_at),
  updatedAt: timestampOf(row.updated_at),
});
