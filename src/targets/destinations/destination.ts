import type { JsonObject } from "@bufbuild/protobuf";
import type { Means } from "../means.ts";
import type { JsonSchema } from "../settings.ts";

/** A secret's value at one version, and the link that it goes through. */
export interface Entry {
  readonly linkId: string;
  readonly secretId: string;
  /** The secret's name. */
  readonly key: string;
  readonly environment: string | null;
  readonly version: number;
  readonly value: string;
}

/** Which one entry is written, with what. */
export interface Site {
  /** As the schemas of the destination left them. */
  readonly config: JsonObject;
  readonly credentials: JsonObject;
  /** Whether this link made the entry that is there, or was about to make it. */
  readonly owned: boolean;
  /**
   * Keeps that the link is about to make the entry. To be awaited once it was seen that there is none and before it is
   * made, where the destination itself cannot hold a mark that says whose an entry is.
   */
  own(): Promise<void>;
}

/**
 * Keeps exactly one named entry of a destination as a secret is. Both methods reject with a TargetError, "foreign" for an
 * entry that this link did not make, and soon once `signal` is aborted; both may come again, and twice is the same as once.
 */
export interface Writer {
  /** Resolves when the destination has confirmed the value. */
  write(entry: Entry, site: Site, signal: AbortSignal): Promise<void>;
  /** Removes what the link wrote; resolves too when there is nothing. */
  remove(entry: Omit<Entry, "value" | "version">, site: Site, signal: AbortSignal): Promise<void>;
}

/** The one entry that a configuration names. */
export interface Place {
  /** As in "https://vault.example.com:8200": whom credentials are sent to. */
  readonly origin: string;
  /** Tells it from all others of that kind; whatever can be written in two ways is written in one. */
  readonly name: string;
}

/** A kind of destination: what it is told, what it needs beside, which nobody is shown, and how it is written. */
export interface Destination {
  /** For a secret of that name, which some defaults follow. */
  readonly config: (key: string) => JsonSchema;
  readonly credentials: JsonSchema;
  /** What is wrong with checked credentials, or with there being none. */
  readonly faults?: (credentials: JsonObject) => readonly { field: string; message: string }[];
  readonly place: (config: JsonObject) => Place;
  readonly open: (means: Means) => Writer;
}
