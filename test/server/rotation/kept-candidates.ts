import type { Candidates } from "../../../src/server/rotation/candidates.ts";
import { candidateColumns, openCandidates } from "../../../src/server/rotation/kept-candidates.ts";
import type { TestServer } from "../../harness/server.ts";

/** What a server keeps, sealed, of what the target of a secret may have. */
export async function keptCandidates({ server: { core } }: TestServer, secretId: string): Promise<Candidates> {
  const [row] = await core.db.query<never>(
    `select ${candidateColumns}, c.id as "configId", c.secret_id as "secretId", c.organization_id as "organizationId",
       k.wrapped
     from rotation_config c join data_key k on k.record_id = c.secret_id where c.secret_id = $1`,
    [secretId],
  );
  const { wrapped, ...kept } = row as unknown as Parameters<typeof openCandidates>[2] &
    Parameters<typeof openCandidates>[3] & { wrapped: Buffer };
  const key = await core.seal.dataKey(core.db, kept.organizationId, secretId, wrapped);
  return openCandidates(core.seal, key, kept, kept);
}
