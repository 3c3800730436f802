import type { JsonObject } from "@bufbuild/protobuf";
import type { Entry, Site } from "../../../src/targets/destinations/destination.ts";
import { vaultKv } from "../../../src/targets/destinations/vault-kv.ts";
import type { Received } from "../../harness/target-server.ts";
import type { Trouble } from "../../harness/trouble.ts";
import type { VaultServer } from "../../harness/vault-server.ts";
import { entryOf, never, outbound, siteOf } from "./writing.ts";

export const writer = vaultKv.open({ outbound });

/** The key of the mark at the field that links have unless they say another one. */
export const mark = "holdfast:value";

/** What docs/links.md says that a token needs. */
export const neededPolicy = {
  "secret/data/app/db": ["create", "read", "update", "patch"],
  "secret/metadata/app/db": ["create", "read", "patch", "delete"],
};

export const checkedConfig = (config: JsonObject): JsonObject => vaultKv.config("DB_PASSWORD").parse(config);

/** Whether a request changes a secret's data. */
export const isWrite = ({ method, path }: Received): boolean => method !== "GET" && path.includes("/data/");

/** Something to be done at the n-th of the requests that follow, the first being 0. */
export function nth(count: number, trouble: () => Trouble | undefined): () => Trouble | undefined {
  let seen = 0;
  return () => (seen++ === count ? trouble() : undefined);
}

/** A link to the field "value" of secret/app/db of a server, and all the others who use that secret. */
export const atVault = (server: () => VaultServer) => {
  const [data, metadata] = ["secret/data/app/db", "secret/metadata/app/db"];
  const site = (config: JsonObject = {}, credentials: JsonObject = { token: server().rootToken }): Site =>
    siteOf(checkedConfig({ address: server().url, path: "app/db", ...config }), credentials);
  return {
    site,
    write: (fields: Partial<Entry> = {}, at = site(), signal = never) => writer.write(entryOf(fields), at, signal),
    remove: (fields: Partial<Entry> = {}, at = site()) => writer.remove(entryOf(fields), at, never),
    fields: () => server().fieldsAt(data),
    custom: () => server().metadataAt(metadata),
    /** All of its versions, and what is said of them. */
    versions: () => JSON.stringify(server().ask("GET", metadata).body),
    put: (fields: object) => server().ask("POST", data, { data: fields }),
    patch: (fields: object) => server().ask("PATCH", data, { data: fields }),
    annotate: (custom: object) => server().ask("PATCH", metadata, { custom_metadata: custom }),
    deleteData: () => server().ask("DELETE", data),
    deleteAll: () => server().ask("DELETE", metadata),
  };
};
