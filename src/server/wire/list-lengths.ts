import { type DescField, type DescMessage, getOption, hasOption, type Message } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { invalidField } from "../errors.ts";

/**
 * Lists are counted before they are read. An item may take two bytes, and costs hundreds of times as much once it is an
 * object and each of its faults another one: without this, one small message would hold up the whole server.
 */

/** A field that is a list with a limit, or in which one may be. */
interface Countable {
  readonly field: DescField;
  /** The most items that it may have. */
  readonly most: number;
  /** What its items hold, as far as that is countable. */
  readonly within: ReadonlyMap<number, Countable>;
}

const countables = new Map<DescMessage, ReadonlyMap<number, Countable>>();

/** Refuses a binary message with a list that is longer than its rule allows; the rest of it is not judged. */
export function checkEncodedLists(schema: DescMessage, bytes: Uint8Array): void {
  countEncoded(countableFields(schema), bytes, () => "");
}

/** The same for JSON, with the names that proto JSON takes. */
export function checkGivenLists(schema: DescMessage, given: Readonly<Record<string, unknown>>): void {
  countGiven(countableFields(schema), given, "");
}

/** Whether the lists of a message, those in their items too, have more than so many items together. */
export function holdsMoreThan(mostItems: number, message: Message): boolean {
  let items = 0;
  const isOver = (value: unknown): boolean => {
    if (Array.isArray(value)) items += value.length;
    if (items > mostItems) return true;
    const isPart = typeof value === "object" && value !== null && !(value instanceof Uint8Array);
    return isPart && Object.values(value).some(isOver);
  };
  return isOver(message);
}

/** By number; none for most messages, which then cost nothing. */
function countableFields(schema: DescMessage): ReadonlyMap<number, Countable> {
  const known = countables.get(schema);
  if (known !== undefined) return known;
  const found = new Map<number, Countable>();
  // First of all, for a message that holds itself.
  countables.set(schema, found);
  for (const field of schema.fields) {
    const most = mostItems(field);
    const within = field.message === undefined ? new Map() : countableFields(field.message);
    if (most !== Number.POSITIVE_INFINITY || within.size > 0) found.set(field.number, { field, most, within });
  }
  return found;
}

function mostItems(field: DescField): number {
  if (field.fieldKind !== "list" || !hasOption(field, fieldRules)) return Number.POSITIVE_INFINITY;
  const { type } = getOption(field, fieldRules);
  const { maxItems = 0n } = type.case === "repeated" ? type.value : {};
  return maxItems === 0n ? Number.POSITIVE_INFINITY : Number(maxItems);
}

/** Numbers come packed into one occurrence, and are counted when they are validated: they cost little. */
function countEncoded(fields: ReadonlyMap<number, Countable>, bytes: Uint8Array, prefix: () => string): void {
  if (fields.size === 0) return;
  const counts = new Map<number, number>();
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    const countable = fields.get(number);
    if (countable === undefined || wireType !== WireType.LengthDelimited) {
      reader.skip(wireType, number);
      continue;
    }
    const count = (counts.get(number) ?? 0) + 1;
    counts.set(number, count);
    const path = () => prefix() + countable.field.name;
    if (count > countable.most) throw tooLong(path(), countable);
    countEncoded(countable.within, reader.bytes(), () => `${pathOfItem(path(), countable, count - 1)}.`);
  }
}

function countGiven(fields: ReadonlyMap<number, Countable>, given: Readonly<Record<string, unknown>>, prefix: string) {
  for (const countable of fields.values()) {
    const { field, most, within } = countable;
    const value = given[field.name] ?? given[field.jsonName];
    const items = Array.isArray(value) ? value : [value];
    const path = prefix + field.name;
    if (items.length > most) throw tooLong(path, countable);
    if (within.size === 0) continue;
    items.forEach((item: unknown, index) => {
      if (typeof item !== "object" || item === null) return;
      countGiven(within, item as Record<string, unknown>, `${pathOfItem(path, countable, index)}.`);
    });
  }
}

const pathOfItem = (path: string, { field }: Countable, index: number) =>
  field.fieldKind === "list" ? `${path}[${index}]` : path;

const tooLong = (path: string, { most }: Countable) => invalidField(path, `must contain no more than ${most} item(s)`);
