import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/discovery/v1/discovered_keytab_service_pb.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { conflict, referenceNotFound, wrongState } from "../errors.ts";
import { record as keytabRecord } from "../keytabs/keytab-record.ts";
import { replaceKeytabFile, storeKeytab } from "../keytabs/store-keytab.ts";
import type { Seal } from "../seal/seal.ts";
import { type Call, callOf } from "../wire/call.ts";
import { type DiscoveredFields, isDrifted, isManaged, selectFields, state } from "./discovered-record.ts";
import { type FetchedFile, nameOf, placeOf } from "./fetch-file.ts";
import { findDiscovered, lockDiscovered, records } from "./find-discovered.ts";
import { addFinding } from "./finding-filter.ts";

/** The methods of discovered_keytab_service.proto. */
export class DiscoveredKeytabService implements ServiceImpl<typeof pb.DiscoveredKeytabService> {
  readonly #seal: Seal;

  constructor(seal: Seal) {
    this.#seal = seal;
  }

  async listDiscoveredKeytabs(request: pb.ListDiscoveredKeytabsRequest, context: HandlerContext) {
    const call = callOf(context);
    const { agentId, limit: perPage } = request;
    const { organizationId } = call.caller;
    const where = new Conditions()
      .add("d.organization_id = ?", organizationId)
      .add(`${state} = ?`, request.state)
      .add("d.agent_id = ?", agentId)
      .add("lower(d.realm) = lower(?)", request.realm)
      .contains("d.principal", request.principal)
      .add(`${isManaged} = ?`, request.isManaged)
      .add(`${isDrifted} = ?`, request.drifted);
    addFinding(where, request.finding, organizationId);
    const select = { columns: selectFields, from: "discovered_keytab d", where, orderBy: "d.last_seen_at desc, d.id" };
    const { rows, pagination } = await fetchPage<DiscoveredFields>(call, select, { page: request.page, perPage });
    const { total, page } = pagination;
    if (agentId !== undefined && total === 0) await checkAgent(call, agentId);
    return { data: await records(call, rows), total, page, limit: pagination.perPage };
  }

  async getDiscoveredKeytab({ id }: pb.GetDiscoveredKeytabRequest, context: HandlerContext) {
    const call = callOf(context);
    return this.#answer(call, await findDiscovered(call, id));
  }

  async ignoreDiscoveredKeytab({ id, reason }: pb.IgnoreDiscoveredKeytabRequest, context: HandlerContext) {
    const call = callOf(context);
    call.about({ reason });
    return this.#move(call, id, "discovered", "ignored_at = now(), ignored_reason = $3", [reason]);
  }

  async unignoreDiscoveredKeytab({ id }: pb.UnignoreDiscoveredKeytabRequest, context: HandlerContext) {
    return this.#move(callOf(context), id, "ignored", "ignored_at = null, ignored_reason = null");
  }

  async importDiscoveredKeytab(request: pb.ImportDiscoveredKeytabRequest, context: HandlerContext) {
    const call = callOf(context);
    const { file, bytes } = (await call.prepared) as FetchedFile;
    const { projectId = null, expiresAt } = request;
    // The keytab before the files that it manages, as for all who store one: so nobody waits in a circle.
    const keytab = await storeKeytab(call, this.#seal, {
      bytes,
      name: nameOf(request, file),
      projectId,
      expiresAt: expiresAt === undefined ? null : timestampDate(expiresAt),
      notes: "",
      source: "discovered",
      changeReason: "imported",
    });
    await requireUnchanged(call, file);
    return keytabRecord(keytab);
  }

  async resyncDiscoveredKeytab({ changeReason }: pb.ResyncDiscoveredKeytabRequest, context: HandlerContext) {
    const call = callOf(context);
    const { file, bytes } = (await call.prepared) as FetchedFile;
    const keytab = await replaceKeytabFile(call, this.#seal, file.managedKeytabId as string, bytes, changeReason);
    await requireUnchanged(call, file);
    return keytabRecord(keytab);
  }

  async #move(call: Call, id: string, from: DiscoveredFields["state"], set: string, values: readonly unknown[] = []) {
    call.about({ id });
    const file = await lockDiscovered(call, id);
    call.about({ name: file.filePath, details: placeOf(file) });
    if (file.state !== from) throw wrongState(`the discovered keytab is ${file.state}`);
    const { organizationId } = call.caller;
    await run(call.em, `update discovered_keytab set ${set} where id = $1 and organization_id = $2`, [
      id,
      organizationId,
      ...values,
    ]);
    return this.#answer(call, await findDiscovered(call, id));
  }

  async #answer(call: Call, file: DiscoveredFields) {
    const [answer] = await records(call, [file]);
    return answer as NonNullable<typeof answer>;
  }
}

/** Refuses what came while the agent was asked; the file, if it still has these bytes, is that of the keytab by now. */
async function requireUnchanged(call: Call, { id, keytabHash }: DiscoveredFields): Promise<void> {
  const file = await findDiscovered(call, id);
  call.about({ details: { ...call.subject.details, ...placeOf(file) } });
  if (file.keytabHash !== keytabHash) throw conflict("the agent has reported other bytes of the file meanwhile");
  if (file.state !== "imported") throw wrongState(`the discovered keytab is ${file.state}`);
}

async function checkAgent(call: Call, id: string): Promise<void> {
  const own = [id, call.caller.organizationId];
  const found = await call.query("select 1 from agent where id = $1 and organization_id = $2", own);
  if (found.length === 0) throw referenceNotFound("agent_id", "agent");
}
