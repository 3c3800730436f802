import type { Database } from "../db/database.ts";
import type { Logger } from "../logging.ts";
import type { Seal } from "../seal/seal.ts";
import { AuditWriter } from "./audit-writer.ts";
import { installationChainKey } from "./chain-key.ts";
import { addPartitionsIfPossible } from "./partitions.ts";
import { chainUnchained } from "./unchained.ts";

/** Makes the audit log ready to be written, with all that was written before in its chains. */
export async function openAuditWriter(db: Database, seal: Seal, logger: Logger): Promise<AuditWriter> {
  const { key, madeAt } = await installationChainKey(seal);
  const audit = new AuditWriter(db, key);
  await addPartitionsIfPossible(db, logger);
  await chainUnchained({ db, audit, logger }, madeAt);
  return audit;
}
