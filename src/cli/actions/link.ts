import { type Link, LinkSchema, LinkService } from "../../../gen/ts/holdfast/links/v1/link_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { askConsent } from "../ask.ts";
import type { Json } from "../commands/options.ts";
import { orElseLook } from "../explain.ts";
import { findSecretId, isId, type PlaceOptions, theOnly } from "../find.ts";
import { readLinkFile } from "../link-file.ts";
import { note, printRecords, printRestRecord, say } from "../output.ts";
import { openSession } from "../session.ts";

export interface LinkOptions extends PlaceOptions, Json {}
export interface CreateOptions extends LinkOptions {
  readonly integration: string;
  readonly file: string;
  readonly name?: string;
  readonly environment?: string;
  readonly sync: boolean;
}
export interface DeleteOptions extends PlaceOptions {
  readonly purge?: boolean;
  readonly yes?: boolean;
}

/** What is deleted at a place is waited for as long as the server does, and somewhat longer. */
const purgeTimeoutMs = 40_000;

export async function create(key: string, options: CreateOptions): Promise<void> {
  const { integration, file, name = "", environment, sync } = options;
  const whereabouts = await readLinkFile(file);
  const api = openSession();
  const id = await findSecretId(api, key, options);
  const request = { id, integration, name, environment, syncEnabled: sync, ...whereabouts };
  const link = await api(LinkService).createLink(request);
  if (options.json) printRestRecord(LinkSchema, link);
  else say(`created the link ${link.id} of ${key}; holdfast sync status ${id} says how far it is`);
}

export async function list(key: string, options: LinkOptions): Promise<void> {
  const api = openSession();
  const { data } = await api(LinkService).listLinks({ id: await findSecretId(api, key, options) });
  printRecords(
    LinkSchema,
    data,
    [
      ["LINK", ({ id }) => id],
      ["INTEGRATION", ({ integration }) => integration],
      ["NAME", ({ name }) => name],
      ["ENVIRONMENT", ({ environment }) => environment ?? "-"],
      ["SYNC", ({ syncEnabled }) => (syncEnabled ? "yes" : "no")],
      ["STATUS", ({ status }) => status],
    ],
    options,
  );
}

export async function remove(key: string, reference: string, options: DeleteOptions): Promise<void> {
  const { purge = false, yes } = options;
  const api = openSession();
  const id = await findSecretId(api, key, options);
  const link = await findLink(api, id, reference);
  const question = `Remove the link ${reference} of ${key}${purge ? ", and what was written there" : ""}?`;
  if (!yes && !(await askConsent(question, "agree with --yes"))) return note("nothing was removed");
  await orElseLook(
    api(LinkService).deleteLink({ id, linkId: link.id, purge }, { timeoutMs: purgeTimeoutMs }),
    `whether it is there still, holdfast link list ${id} says`,
  );
  note(`removed the link ${link.id}${purge ? ", and what was written there" : ""}`);
}

async function findLink(api: Api, secretId: string, reference: string): Promise<Link> {
  const { data } = await api(LinkService).listLinks({ id: secretId });
  const found = data.filter(({ id, name }) => (isId(reference) ? id === reference.toLowerCase() : name === reference));
  return theOnly(`link ${reference}`, found, ({ id, integration }) => `${id}  ${integration}`, "say which by its id");
}
