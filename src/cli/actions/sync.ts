import { LinkService, type SyncStatus, SyncStatusSchema } from "../../../gen/ts/holdfast/links/v1/link_service_pb.ts";
import type { Json } from "../commands/options.ts";
import { exitCodes } from "../failure.ts";
import { findSecretId, type PlaceOptions } from "../find.ts";
import { print, printRestRecord, say } from "../output.ts";
import { openSession } from "../session.ts";
import { hasFailed, isSettled, syncText, syncView } from "../sync-status.ts";
import { longestLookMs, watch } from "../watch.ts";

export interface SyncStatusOptions extends PlaceOptions, Json {
  readonly watch?: boolean;
}
export interface ForceOptions extends PlaceOptions, Json {
  readonly environment?: string;
  readonly wait?: boolean;
}

export async function status(key: string, options: SyncStatusOptions): Promise<void> {
  const api = openSession();
  const id = await findSecretId(api, key, options);
  const look = () => api(LinkService).getSyncStatus({ id }, options.watch ? { timeoutMs: longestLookMs } : {});
  const seen = await look();
  if (options.watch) await untilSettled(seen, look);
  else if (options.json) printRestRecord(SyncStatusSchema, seen);
  else print(syncText(seen));
}

export async function force(key: string, options: ForceOptions): Promise<void> {
  const { environment } = options;
  const api = openSession();
  const links = api(LinkService);
  const id = await findSecretId(api, key, options);
  const asked = await (environment === undefined
    ? links.forceSync({ id })
    : links.forceEnvironmentSync({ id, environment }));
  if (options.json) return printRestRecord(SyncStatusSchema, asked);
  const { queued = 0 } = asked;
  say(
    queued === 1 ? "one target will be written anew" : `${queued === 0 ? "no" : queued} targets will be written anew`,
  );
  if (!options.wait || queued === 0) return;
  const ids = new Set(asked.targets.filter((target) => target.status !== "disabled").map(({ targetId }) => targetId));
  const concerned = (seen: SyncStatus) => ({ ...seen, targets: seen.targets.filter((each) => ids.has(each.targetId)) });
  await untilSettled(concerned(asked), async () =>
    concerned(await links.getSyncStatus({ id }, { timeoutMs: longestLookMs })),
  );
}

/** The exit status says whether all went well; one that is interrupted does not know. */
async function untilSettled(first: SyncStatus, look: () => Promise<SyncStatus>): Promise<void> {
  process.once("SIGINT", () => process.exit(130));
  if (hasFailed(await watch(first, look, syncView, isSettled))) process.exitCode = exitCodes.unexpected;
}
