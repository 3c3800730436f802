import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/links/v1/link_service_pb.ts";
import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { timestampOf } from "../db/timestamp.ts";
import { invalidField } from "../errors.ts";
import { findActive } from "../secrets/find-secret.ts";
import type { Secret } from "../secrets/secret.ts";
import { type Call, callOf } from "../wire/call.ts";
import { changeOf } from "./link-change.ts";
import { aboutLink, answerLink, answerTarget, environmentOf, findLink, linksOf } from "./link-record.ts";
import { checkConfig, checkCredentials, destinationOf } from "./link-settings.ts";
import { beginPurge, finishPurge, type Purge } from "./purge.ts";
import { changeLink, storeLink } from "./store-link.ts";
import { requeue } from "./sync-queue.ts";

const longestEnvironment = 50;

/** The methods of link_service.proto. */
export class LinkService implements ServiceImpl<typeof pb.LinkService> {
  readonly #core: Core;
  readonly #purges = new WeakMap<Call, Purge>();

  constructor(core: Core) {
    this.#core = core;
  }

  async listLinks({ id }: pb.ListLinksRequest, context: HandlerContext) {
    const call = callOf(context);
    const links = await linksOf(call, await findSecret(call, id));
    return { data: links.map(answerLink) };
  }

  async getLink({ id, linkId }: pb.GetLinkRequest, context: HandlerContext) {
    const call = callOf(context);
    return answerLink(await findLink(call, await findSecret(call, id), linkId));
  }

  async createLink(request: pb.CreateLinkRequest, context: HandlerContext) {
    const call = callOf(context);
    const { integration, name, environment = null, syncEnabled = true } = request;
    call.about({ details: { integration } });
    const destination = destinationOf(integration);
    const secret = await findSecret(call, request.id);
    const link = await storeLink(call, this.#core.seal, secret, {
      ...checkConfig(destination, secret.key, request.config ?? {}),
      credentials: checkCredentials(destination, request.credentials),
      integration,
      name,
      environment,
      syncEnabled,
    });
    aboutLink(call, link);
    return answerLink(link);
  }

  async updateLink(request: pb.UpdateLinkRequest, context: HandlerContext) {
    const call = callOf(context);
    const secret = await findSecret(call, request.id);
    const before = await findLink(call, secret, request.linkId);
    const change = changeOf(before, secret.key, request);
    if (change.isEqual) return answerLink(before);
    await changeLink(call, this.#core.seal, secret, before.id, change);
    return answerLink(await findLink(call, secret, before.id));
  }

  async deleteLink({ id, linkId, purge }: pb.DeleteLinkRequest, context: HandlerContext) {
    const call = callOf(context);
    const secret = await findSecret(call, id);
    const link = await findLink(call, secret, linkId);
    if (purge) {
      call.action = "link.purge";
      this.#purges.set(call, await beginPurge(call, link));
    } else {
      await run(call.em, "delete from secret_link where id = $1 and organization_id = $2", [
        link.id,
        secret.organizationId,
      ]);
    }
    return {};
  }

  /** What follows once a purge has begun. */
  async purge(call: Call, signal: AbortSignal): Promise<void> {
    const purge = this.#purges.get(call);
    if (purge !== undefined) await finishPurge(this.#core, call, purge, signal);
  }

  async getSyncStatus({ id }: pb.GetSyncStatusRequest, context: HandlerContext) {
    const call = callOf(context);
    return syncStatus(call, await findSecret(call, id));
  }

  async forceSync({ id }: pb.ForceSyncRequest, context: HandlerContext) {
    return force(callOf(context), id);
  }

  async forceEnvironmentSync({ id, environment }: pb.ForceEnvironmentSyncRequest, context: HandlerContext) {
    // A rule of the contract for what stands in the path would be answered with 404.
    if ([...environment].length > longestEnvironment)
      throw invalidField("environment", `must have at most ${longestEnvironment} characters`);
    return { ...(await force(callOf(context), id, environment)), environment };
  }
}

/** Links of a secret are there for as long as it is. */
async function findSecret(call: Call, id: string): Promise<Secret> {
  call.about({ type: "secret" });
  return findActive(call, id);
}

async function force(call: Call, id: string, environment?: string) {
  const secret = await findSecret(call, id);
  const queued = await requeue(call.em, secret, { environment });
  call.about({ details: { queued, ...(environment === undefined ? {} : { environment }) } });
  return { ...(await syncStatus(call, secret, environment)), queued, requestedAt: timestampOf(call.now) };
}

/** How far the links of a secret are; those of one environment, if it is given. */
async function syncStatus(call: Call, secret: Secret, environment?: string) {
  const links = await linksOf(call, secret);
  const shown = environment === undefined ? links : links.filter((link) => environmentOf(link, secret) === environment);
  return {
    id: secret.id,
    syncEnabled: links.some(({ syncEnabled }) => syncEnabled),
    targets: shown.map((link) => answerTarget(link, secret)),
  };
}
