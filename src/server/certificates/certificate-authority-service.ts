import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/certificates/v1/certificate_authority_service_pb.ts";
import type { RevocationReason } from "../../standards/x509/revocation-reasons.ts";
import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { referenceNotFound, wrongState } from "../errors.ts";
import { type Call, callOf } from "../wire/call.ts";
import { type AuthorityRow, answerAuthority, selectFields, statusNow } from "./authority-record.ts";
import { createAuthority, nameTaken } from "./create-authority.ts";
import { downloadCrl } from "./crl-download.ts";
import { authorizeReading, findAuthority } from "./find-authority.ts";
import type { NewAuthority } from "./new-authority.ts";
import { revokeAuthority } from "./revoke-authority.ts";

/** The methods of certificate_authority_service.proto. */
export class CertificateAuthorityService implements ServiceImpl<typeof pb.CertificateAuthorityService> {
  readonly #core: Pick<Core, "seal" | "statusUrl">;

  constructor(core: Pick<Core, "seal" | "statusUrl">) {
    this.#core = core;
  }

  async createCertificateAuthority(_: pb.CreateCertificateAuthorityRequest, context: HandlerContext) {
    const call = callOf(context);
    const made = (await call.prepared) as NewAuthority;
    return this.#answer(await createAuthority(call, this.#core.seal, made));
  }

  async listCertificateAuthorities(request: pb.ListCertificateAuthoritiesRequest, context: HandlerContext) {
    const call = callOf(context);
    authorizeReading(call);
    const { organizationId } = call.caller;
    const { status, type, parentId, search, page, perPage } = request;
    const where = new Conditions()
      .add("a.organization_id = ?", organizationId)
      .add(`${statusNow} = ?`, status)
      .add("a.type = ?", type)
      .add("a.parent_id = ? and a.id <> a.parent_id", parentId)
      .contains("a.name", search);
    const from = "certificate_authority a";
    const select = { columns: selectFields, from, where, orderBy: "a.created_at desc, a.id desc" };
    const { rows, pagination } = await fetchPage<AuthorityRow>(call, select, { page, perPage });
    if (parentId !== undefined && pagination.total === 0) await requireParent(call, parentId);
    return { data: rows.map((row) => this.#answer(row)), pagination };
  }

  async getCertificateAuthority({ id }: pb.GetCertificateAuthorityRequest, context: HandlerContext) {
    const call = callOf(context);
    authorizeReading(call);
    return this.#answer(await findAuthority(call, id));
  }

  async updateCertificateAuthority(request: pb.UpdateCertificateAuthorityRequest, context: HandlerContext) {
    const call = callOf(context);
    const before = await findAuthority(call, request.id);
    const { name = before.name, status = before.status_now } = request;
    const isOver = before.status_now === "revoked" || (before.status_now === "expired" && request.status !== undefined);
    if (isOver) throw wrongState(`the certificate authority is ${before.status_now}`);
    return this.#answer(await save(call, before, { name, status }));
  }

  async revokeCertificateAuthority(request: pb.RevokeCertificateAuthorityRequest, context: HandlerContext) {
    const { id, reason = "unspecified" } = request;
    return this.#answer(await revokeAuthority(callOf(context), id, reason as RevocationReason));
  }

  async *downloadCrl(request: pb.DownloadCrlRequest, context: HandlerContext) {
    const call = callOf(context);
    authorizeReading(call);
    yield* downloadCrl(call, request);
  }

  #answer(row: AuthorityRow) {
    return answerAuthority(row, this.#core.statusUrl);
  }
}

async function requireParent(call: Call, id: string): Promise<void> {
  const parent = "select 1 from certificate_authority where id = $1 and organization_id = $2";
  const found = await call.query(parent, [id, call.caller.organizationId]);
  if (found.length === 0) throw referenceNotFound("parent_id", "certificate authority");
}

/** Keeps what is different; `updated_at` stands when nothing is. */
async function save(call: Call, before: AuthorityRow, after: { name: string; status: string }): Promise<AuthorityRow> {
  const isRenamed = after.name !== before.name;
  const isSwitched = after.status !== before.status_now;
  if (!isRenamed && !isSwitched) return before;
  const [row] = await run<AuthorityRow>(
    call.em,
    `update certificate_authority a set name = $3, status = case when $4 then $5 else a.status end, updated_at = $6
     where a.id = $1 and a.organization_id = $2 returning ${selectFields}`,
    [before.id, before.organization_id, after.name, isSwitched, after.status, call.now],
  ).catch(nameTaken);
  call.about({
    name: after.name,
    details: { ...(isRenamed && { name_before: before.name }), ...(isSwitched && { status: after.status }) },
  });
  return row as AuthorityRow;
}
