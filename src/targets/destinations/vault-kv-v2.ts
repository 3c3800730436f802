import type { JsonObject } from "@bufbuild/protobuf";
import { z } from "zod";
import { anyObject } from "../settings.ts";
import { TargetError } from "../target-error.ts";
import { jsonOf } from "./json-answer.ts";
import type { VaultClient } from "./vault-client.ts";
import { checkKvVersion, foreignInVault, type KvField } from "./vault-kv-field.ts";
import type { VaultMark } from "./vault-kv-mark.ts";

/** What there is at the path of a secret. */
interface Found {
  /** Of the current data; 0 where there are none yet. */
  readonly version: number;
  /** The current data; undefined where there are none, or where they are deleted. */
  readonly fields: JsonObject | undefined;
  /** Custom metadata; undefined where the path is free. */
  readonly metadata: Readonly<Record<string, string>> | undefined;
}

const Metadata = z.record(z.string(), z.string()).nullish();
const DataVersion = z.object({ version: z.int().min(1), custom_metadata: Metadata });
const Data = z.object({ data: z.object({ data: anyObject.nullable(), metadata: DataVersion }) });
/** Of what is deleted, Vault still tells the metadata. */
const NoData = z.object({ data: z.object({ metadata: DataVersion }).nullish() });
const SecretMetadata = z.object({ data: z.object({ current_version: z.int().min(0), custom_metadata: Metadata }) });
const Written = z.object({ data: z.object({ version: z.int() }) });

/** How often the work starts anew because somebody else wrote to the secret meanwhile. */
const mostTries = 4;
/** Says of a whole secret that it was made here. */
const [managedBy, holdfast] = ["managed-by", "holdfast"];
const markPrefix = "holdfast:";

/**
 * One field of a secret in a secrets engine KV version 2. Others' fields are neither sent nor lost: what is there is only
 * ever patched, and only if it still has the version that was read (check-and-set).
 */
export class KvV2Field {
  readonly #vault: VaultClient;
  readonly #place: KvField;
  readonly #mark: VaultMark;

  constructor(vault: VaultClient, place: KvField, mark: VaultMark) {
    this.#vault = vault;
    this.#place = place;
    this.#mark = mark;
  }

  async write(value: string): Promise<void> {
    await this.#untilDone(async () => await this.#tryToWrite(value));
  }

  async remove(): Promise<void> {
    await this.#untilDone(async () => await this.#tryToRemove());
  }

  async #untilDone(attempt: () => Promise<boolean>): Promise<void> {
    for (let tries = 0; tries < mostTries; tries += 1) if (await attempt()) return;
    throw new TargetError("refused", "others keep writing to the secret in Vault");
  }

  /** False when it is to begin anew. */
  async #tryToWrite(value: string): Promise<boolean> {
    const found = await this.#read();
    const current = this.#valueIn(found);
    const isFinal = this.#markIn(found) === this.#mark.final;
    if (current !== undefined && !isFinal) {
      this.#checkOwn(found);
      // Finishes what was begun before: the proof holds for the value that is there only.
      await this.#finalize();
      return false;
    }
    if (current === value) return true;
    if (isFinal) return await this.#put(found, value);
    return (await this.#claim(found, value)) && (await this.#put(found, value)) && (await this.#finalize());
  }

  /** False when it is to begin anew. */
  async #tryToRemove(): Promise<boolean> {
    const found = await this.#read();
    if (this.#valueIn(found) !== undefined) {
      this.#checkOwn(found);
      if (this.#isAlone(found)) return await this.#removeSecret();
      return (await this.#put(found, null)) && (await this.#unmark(found).catch(notAsBefore));
    }
    if (!this.#mark.isOf(this.#markIn(found))) return true;
    const isEmpty = found.version === 0 && this.#isAlone(found);
    return isEmpty ? await this.#removeSecret() : await this.#unmark(found);
  }

  async #read(): Promise<Found> {
    const answer = await this.#vault.get(this.#at("data"));
    if (answer.status !== 404) {
      const { data, metadata } = jsonOf("Vault", answer, Data).data;
      return { version: metadata.version, fields: data ?? {}, metadata: metadata.custom_metadata ?? {} };
    }
    const { data } = jsonOf("Vault", answer, NoData);
    if (data === undefined || data === null) return await this.#readMetadata();
    const { version, custom_metadata: metadata } = data.metadata;
    return { version, fields: undefined, metadata: metadata ?? {} };
  }

  /** Of a secret without data: there may be a claim from before. */
  async #readMetadata(): Promise<Found> {
    const answer = await this.#vault.get(this.#at("metadata"));
    if (answer.status === 404) {
      // In an engine of version 1 the requests that follow would make secrets of other names.
      await checkKvVersion(this.#vault, this.#place);
      return { version: 0, fields: undefined, metadata: undefined };
    }
    const { current_version: version, custom_metadata: metadata } = jsonOf("Vault", answer, SecretMetadata).data;
    return { version, fields: undefined, metadata: metadata ?? {} };
  }

  async #claim({ metadata }: Found, value: string): Promise<boolean> {
    const claim = { [this.#markKey]: this.#mark.claimOf(value) };
    if (metadata !== undefined) return await this.#annotate(claim);
    // OpenBao then makes the metadata only if there are still none; Vault has no such condition, and ignores it.
    const body = { custom_metadata: { [managedBy]: holdfast, ...claim }, metadata_cas: 0 };
    return (await this.#vault.sendIf("POST", this.#at("metadata"), body)) !== undefined;
  }

  async #finalize(): Promise<boolean> {
    return await this.#annotate({ [this.#markKey]: this.#mark.final });
  }

  /** The last link also takes away that the secret was made here: it is others' now. */
  async #unmark({ metadata = {} }: Found): Promise<boolean> {
    const isLast = !Object.keys(metadata).some((key) => key.startsWith(markPrefix) && key !== this.#markKey);
    const maker = isLast && metadata[managedBy] === holdfast ? { [managedBy]: null } : {};
    return await this.#annotate({ [this.#markKey]: null, ...maker });
  }

  /** Leaves the metadata of others as they are. False when the secret is gone. */
  async #annotate(changes: Readonly<Record<string, string | null>>): Promise<boolean> {
    return (await this.#vault.sendIf("PATCH", this.#at("metadata"), { custom_metadata: changes })) !== undefined;
  }

  /** Sets the field, or takes it away. False when the secret is not as it was found. */
  async #put({ version, fields }: Found, value: string | null): Promise<boolean> {
    const body = { options: { cas: version }, data: { [this.#place.field]: value } };
    const method = fields === undefined ? "POST" : "PATCH";
    const answer = await this.#vault.sendIf(method, this.#at("data"), body);
    if (answer === undefined) return false;
    if (jsonOf("Vault", answer, Written).data.version === version + 1) return true;
    throw new TargetError("invalid", "Vault did not confirm the version that was written");
  }

  /** With all of its versions. */
  async #removeSecret(): Promise<true> {
    await this.#vault.send("DELETE", this.#at("metadata"));
    return true;
  }

  /** Whether the secret was made here and holds nothing else. */
  #isAlone({ fields = {}, metadata = {} }: Found): boolean {
    const { [managedBy]: maker, [this.#markKey]: _, ...others } = metadata;
    const names = Object.keys(fields).filter((name) => name !== this.#place.field);
    return maker === holdfast && names.length === 0 && Object.keys(others).length === 0;
  }

  #checkOwn(found: Found): void {
    if (!this.#mark.proves(this.#markIn(found), this.#valueIn(found))) throw foreignInVault(this.#place);
  }

  #valueIn({ fields = {} }: Found): unknown {
    return Object.hasOwn(fields, this.#place.field) ? fields[this.#place.field] : undefined;
  }

  #markIn({ metadata }: Found): string | undefined {
    return metadata?.[this.#markKey];
  }

  get #markKey(): string {
    return `${markPrefix}${this.#place.field}`;
  }

  #at(kind: "data" | "metadata"): readonly string[] {
    return [...this.#place.mount, kind, ...this.#place.path];
  }
}

/** Passes an error on that says no more that nothing was changed. */
function notAsBefore(error: unknown): never {
  if (!(error instanceof TargetError)) throw error;
  const { code, message, permanent, retryAfterMs } = error;
  throw new TargetError(code, message, { permanent, retryAfterMs, cause: error });
}
