import type { KeyObject } from "node:crypto";
import { createReadStream } from "node:fs";
import { z } from "zod";
import {
  type Break,
  type ChainEnd,
  type ChainedEvent,
  ChainVerifier,
  hashOf,
  headOf,
} from "../../standards/audit-chain.ts";

const mostTriedForKey = 100;
const text = z.string();
const named = z.object({ type: text, id: text.nullable(), name: text.nullable() });

/** A line of GET /api/v1/audit-logs/export. */
const ExportedEvent = z.object({
  id: text,
  occurred_at: text,
  action: text,
  outcome: text,
  actor: named,
  resource: named,
  project_id: text.nullable(),
  reason: text.nullable(),
  request_id: text.nullable(),
  source_ip: text.nullable(),
  user_agent: text.nullable(),
  details: z.unknown(),
  chain: z.int(),
  sequence: z.int(),
  previous_hash: text,
  hash: text,
});

/** A saved answer of GET /api/v1/audit-logs/verify, or a line "audit log checkpoint" of the service's log. */
const Checkpoint = z.object({
  chains: z.array(z.object({ chain: z.int(), length: z.int(), hash: text })),
});

/** What was found in an exported log. */
export interface ExportReport {
  readonly valid: boolean;
  readonly checked: number;
  /** The first place that is not as it was written. */
  readonly broken: Break | undefined;
  /** How far each chain was found to go, and the hash over all of these ends, as `verify` answers them. */
  readonly chains: readonly ChainEnd[];
  readonly head: string;
}

/** The file is no complete export of an audit log of these keys' organizations, or no checkpoint. */
export class UnreadableExport extends Error {}

/**
 * Verifies the audit log in a file that was exported without filters: every chain from its first event, and up to the
 * checkpoint if there is one. `keys` are those of the organizations that it may be of. Throws UnreadableExport.
 */
export async function verifyExport(
  file: string,
  keys: readonly KeyObject[],
  checkpoint: readonly ChainEnd[] = [],
): Promise<ExportReport> {
  const verifier = new ChainVerifier(await keyOf(file, keys), checkpoint);
  for await (const event of eventsIn(file)) verifier.add(event);
  const broken = verifier.firstBreak();
  const chains = verifier.ends();
  return { valid: broken === undefined, checked: verifier.checked, broken, chains, head: headOf(chains) };
}

/** The ends of chains out of the text of a checkpoint. Throws UnreadableExport. */
export function readCheckpoint(json: string): ChainEnd[] {
  try {
    return Checkpoint.parse(JSON.parse(json)).chains;
  } catch (error) {
    throw new UnreadableExport("the checkpoint is no saved answer of audit-logs/verify", { cause: error });
  }
}

/** The key that made one of the first events: a file does not say whose log it holds. */
async function keyOf(file: string, keys: readonly KeyObject[]): Promise<KeyObject> {
  let tried = 0;
  for await (const event of eventsIn(file)) {
    const key = keys.find((each) => hashOf(each, event.previousHash, event) === event.hash);
    if (key !== undefined) return key;
    tried += 1;
    if (tried === mostTriedForKey) break;
  }
  throw new UnreadableExport(`${file} holds no event that was written with a key of this installation`);
}

async function* eventsIn(file: string): AsyncGenerator<ChainedEvent> {
  let number = 0;
  for await (const line of linesOf(file)) {
    number += 1;
    if (line === "") continue;
    yield read(line, `line ${number} of ${file}`);
  }
}

function read(line: string, place: string): ChainedEvent {
  try {
    const {
      occurred_at,
      actor,
      resource,
      project_id,
      request_id,
      source_ip,
      user_agent,
      previous_hash,
      details,
      ...rest
    } = ExportedEvent.parse(JSON.parse(line));
    return {
      ...rest,
      occurredAt: occurred_at,
      actorType: actor.type,
      actorId: actor.id,
      actorName: actor.name,
      resourceType: resource.type,
      resourceId: resource.id,
      resourceName: resource.name,
      projectId: project_id,
      requestId: request_id,
      sourceIp: source_ip,
      userAgent: user_agent,
      previousHash: previous_hash,
      details: JSON.stringify(details),
    };
  } catch (error) {
    throw new UnreadableExport(`${place} is no event of an exported audit log`, { cause: error });
  }
}

/** Lines end with a line feed only; a name may hold what readline takes for the end of a line as well. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of createReadStream(file, "utf8")) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") yield rest;
}
