import { type Queries, run } from "../db/database.ts";
import type { Place, Seal } from "../seal/seal.ts";
import type { Call } from "../wire/call.ts";

/** The request that a file was sent for. */
interface Request {
  readonly id: string;
  readonly organizationId: string;
}

const placeOf = ({ id, organizationId }: Request): Place => ({
  organizationId,
  kind: "agent_command.upload",
  recordId: id,
  version: 1,
});

/** Seals a file under a key of its own, which is kept in the call's transaction. */
export async function sealUpload(call: Call, seal: Seal, request: Request, file: Uint8Array): Promise<Buffer> {
  const { id, organizationId } = request;
  const { key, wrapped } = await seal.createDataKey(call, organizationId, id);
  await run(call.em, "insert into data_key (record_id, organization_id, wrapped) values ($1, $2, $3)", [
    id,
    organizationId,
    wrapped,
  ]);
  return seal.seal(key, placeOf(request), file);
}

/** Opens a file with its wrapped key. */
export async function openUpload(
  queries: Queries,
  seal: Seal,
  request: Request,
  { upload, wrapped }: { readonly upload: Buffer | null; readonly wrapped: Buffer | null },
): Promise<Buffer> {
  if (upload === null || wrapped === null)
    throw new Error(`the upload of request ${request.id} has no bytes or no key`);
  const key = await seal.dataKey(queries, request.organizationId, request.id, wrapped);
  return seal.open(key, placeOf(request), upload);
}
