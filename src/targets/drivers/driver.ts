import type { JsonObject } from "@bufbuild/protobuf";
import type { Means } from "../means.ts";
import type { JsonSchema } from "../settings.ts";

/** A value, and the target that it is to be used at. */
export interface Assignment {
  readonly taskId: string;
  readonly attempt: number;
  readonly secretId: string;
  /** The secret's name. */
  readonly key: string;
  /** Where the secret is used, and for a gateway its own; none when the secret has none. */
  readonly environment: string | null;
  /** As the driver's schemas left them. */
  readonly settings?: JsonObject | undefined;
  readonly credentials?: JsonObject | undefined;
  /** The candidate to apply, or what to verify. Empty where the target makes the values. */
  readonly value: string;
  /** The secret's current value; none where nothing is to be replaced. */
  readonly previousValue?: string | undefined;
  /** What attempts before may have brought to the target, though nobody could confirm it; the newest first. */
  readonly earlierCandidates: readonly string[];
}

/** Leave to go on with a task, which may end at any time. */
export interface Permit {
  /** Aborted at the end: what runs is to be stopped. */
  readonly signal: AbortSignal;
  /** Throws when it has ended, also when nobody could be told yet: to be called right before what has effects. */
  check(): void;
}

/**
 * Brings values to where they are used. Both methods reject with a TargetError, and soon when the permit ends; a task may
 * come again with the same value, so that applying it twice must be the same as once.
 */
export interface Applier {
  /** Makes the value the one that is used; answers another one where the target makes its own. */
  apply(assignment: Assignment, permit: Permit): Promise<string | undefined>;
  /** Rejects unless the value is in use, and changes nothing. */
  verify(assignment: Assignment, permit: Permit): Promise<void>;
  /** Puts the value before back, where the target has taken one by which it lets nobody in; answers whether it could. */
  revert?(assignment: Assignment, permit: Permit): Promise<boolean>;
}

/** A kind of target: what it is told, what it needs beside, which nobody is shown, and how it is reached. */
export interface Driver {
  readonly settings: JsonSchema;
  readonly credentials: JsonSchema;
  /** What is wrong with checked settings, given whether there are credentials; the field is below the settings. */
  readonly faults?: (settings: JsonObject, hasCredentials: boolean) => readonly { field: string; message: string }[];
  /** Whether the target makes the values itself and tells us. */
  readonly mints?: (settings: JsonObject) => boolean;
  /** The secret's value to be, around a password that was made for it; the password itself where this is left out. */
  readonly compose?: (password: string, settings: JsonObject, previousValue: string) => string;
  /** Left out by those that take more than a network: only a gateway has that. */
  readonly open?: (means: Means) => Applier;
}
