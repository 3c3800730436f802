import { type DescField, type DescMessage, getOption, hasOption, type Message, ScalarType } from "@bufbuild/protobuf";
import { closed, field as fieldOptions } from "../../gen/ts/holdfast/options/v1/options_pb.ts";
/** What is wrong with a field, by its path. */
export interface FieldFault {
  readonly field: string;
  readonly message: string;
}

/**
 * What messages with the option `closed` refuse: what they do not declare, and values of other types than they declare.
 * What is at fault is left out, so that the rest can be judged by its rules and every fault is told at once.
 */

/** More of them help nobody. */
const mostFaults = 100;
/** Of a name that was sent, as it is told. */
const longestName = 200;

/** Which names count: those of the proto, in which REST speaks, or also those that proto JSON makes of them. */
export type Spelling = "declared" | "protoJson";

interface Reading {
  readonly spelling: Spelling;
  readonly faults: FieldFault[];
}

/** What is kept of a value; undefined when all of it is at fault, which is noted. */
type Read = (value: unknown, path: string, reading: Reading) => unknown;

interface Part {
  readonly field: DescField;
  readonly read: Read;
}

/** A message that is closed, or in which one may be. */
interface Shape {
  readonly isClosed: boolean;
  readonly names: Readonly<Record<Spelling, ReadonlyMap<string, Part>>>;
  /** The fields that hold such messages. */
  readonly within: readonly (readonly [DescField, DescMessage])[];
}

/** A scalar of a closed message. */
interface Kind {
  /** Holds the place of an item that is at fault. */
  readonly blank: unknown;
  /** What a value should be, if it is not that. */
  readonly demandOf: (value: unknown) => string | undefined;
}

const kinds: Readonly<Partial<Record<ScalarType, Kind>>> = {
  [ScalarType.STRING]: {
    blank: "",
    demandOf: (value) => {
      if (typeof value !== "string") return "must be a string";
      return value.isWellFormed() ? undefined : "must not contain lone surrogates";
    },
  },
  [ScalarType.BOOL]: {
    blank: false,
    demandOf: (value) => (typeof value === "boolean" ? undefined : "must be true or false"),
  },
  [ScalarType.INT32]: {
    blank: 0,
    demandOf: (value) =>
      typeof value === "number" && (value | 0) === value ? undefined : "must be an integer of 32 bits",
  },
};

const shapes = new Map<DescMessage, Shape | undefined>();

/** The JSON of a request without what closed messages refuse of it, which is noted in `faults`. */
export function readClosed(
  schema: DescMessage,
  given: Record<string, unknown>,
  spelling: Spelling,
  faults: FieldFault[],
): Record<string, unknown> {
  const shape = shapeOf(schema);
  return shape === undefined ? given : readObject(shape, given, "", { spelling, faults });
}

/** Notes the fields that a binary message holds and that closed messages do not declare, by their numbers. */
export function noteUnknownFields(schema: DescMessage, message: Message, faults: FieldFault[], path = ""): void {
  const shape = shapeOf(schema);
  if (shape === undefined) return;
  const numbers = shape.isClosed ? new Set(message.$unknown?.map(({ no }) => no)) : [];
  for (const number of numbers) note(faults, path || "body", `has no field ${number}`);
  for (const [field, inner] of shape.within) {
    const value = (message as unknown as Record<string, Message | readonly Message[] | undefined>)[field.localName];
    const at = path === "" ? field.name : `${path}.${field.name}`;
    if (Array.isArray(value))
      value.forEach((item: Message, index) => noteUnknownFields(inner, item, faults, `${at}[${index}]`));
    else if (value !== undefined) noteUnknownFields(inner, value as Message, faults, at);
  }
}

function note(faults: FieldFault[], field: string, message: string): undefined {
  if (faults.length < mostFaults) faults.push({ field, message });
}

function readObject(shape: Shape, given: Record<string, unknown>, prefix: string, reading: Reading) {
  const parts = shape.names[reading.spelling];
  const kept = new Map<string, unknown>();
  for (const [name, value] of Object.entries(given)) {
    const part = parts.get(name);
    // What an open message makes of null and of unknown names is not decided here.
    if (part === undefined || (value === null && !shape.isClosed)) {
      if (shape.isClosed) note(reading.faults, prefix + name.slice(0, longestName), "is not known here");
      else kept.set(name, value);
      continue;
    }
    const path = prefix + part.field.name;
    const read = kept.has(part.field.name)
      ? note(reading.faults, path, "is given twice")
      : part.read(value, path, reading);
    if (read !== undefined) kept.set(part.field.name, read);
  }
  // Not by assignment, which takes __proto__ for something else.
  return Object.fromEntries(kept);
}

/** None for most messages, which then cost nothing. */
function shapeOf(schema: DescMessage): Shape | undefined {
  if (shapes.has(schema)) return shapes.get(schema);
  // First of all, for the free JSON of others, which holds itself.
  shapes.set(schema, undefined);
  const isClosed = hasOption(schema, closed) && getOption(schema, closed);
  const within = schema.fields.flatMap((field) =>
    field.message !== undefined && shapeOf(field.message) !== undefined ? [[field, field.message] as const] : [],
  );
  const shape = isClosed || within.length > 0 ? newShape(schema, isClosed, within) : undefined;
  shapes.set(schema, shape);
  return shape;
}

function newShape(schema: DescMessage, isClosed: boolean, within: Shape["within"]): Shape {
  const declared = new Map<string, Part>();
  const protoJson = new Map<string, Part>();
  // Of an open message only what is within is looked at; all else passes.
  for (const field of isClosed ? schema.fields : within.map(([each]) => each)) {
    const part = { field, read: readerOf(field) };
    const aliases = hasOption(field, fieldOptions) ? getOption(field, fieldOptions).alias : [];
    for (const name of [field.name, field.jsonName]) protoJson.set(name, part);
    // REST makes the mask of an update from the body itself.
    if (field.name !== "update_mask") for (const name of [field.name, ...aliases]) declared.set(name, part);
    if (!isClosed) declared.set(field.jsonName, part);
  }
  return { isClosed, names: { declared, protoJson }, within };
}

function readerOf(field: DescField): Read {
  if (field.fieldKind === "message") return messageReader(field.message);
  if (field.fieldKind === "scalar") return scalarReader(kindOf(field, field.scalar));
  if (field.fieldKind === "list" && field.listKind === "message") return listReader(messageReader(field.message), {});
  if (field.fieldKind === "list" && field.listKind === "scalar") {
    const kind = kindOf(field, field.scalar);
    return listReader(scalarReader(kind), kind.blank);
  }
  throw new Error(`${field.parent.typeName}.${field.name} has a kind that closed messages do not have yet`);
}

function kindOf(field: DescField, scalar: ScalarType): Kind {
  const kind = kinds[scalar];
  if (kind === undefined)
    throw new Error(`${field.parent.typeName}.${field.name} has a type that closed messages do not have yet`);
  return kind;
}

const scalarReader =
  ({ demandOf }: Kind): Read =>
  (value, path, { faults }) => {
    const demand = demandOf(value);
    return demand === undefined ? value : note(faults, path, demand);
  };

/** A well-known one, such as a mask, is left to proto JSON, which writes it in its own way. */
function messageReader(schema: DescMessage): Read {
  if (schema.typeName.startsWith("google.protobuf.")) return (value) => value;
  return (value, path, reading) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return note(reading.faults, path, "must be an object");
    }
    const shape = shapeOf(schema);
    const object = value as Record<string, unknown>;
    return shape === undefined ? object : readObject(shape, object, `${path}.`, reading);
  };
}

/** An item that is at fault leaves a blank, so that the others keep their places. */
const listReader =
  (read: Read, blank: unknown): Read =>
  (value, path, reading) =>
    Array.isArray(value)
      ? value.map((item: unknown, index) => read(item, `${path}[${index}]`, reading) ?? blank)
      : note(reading.faults, path, "must be a list");
