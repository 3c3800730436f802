import { type DescField, type DescMessage, getOption, hasOption, ScalarType } from "@bufbuild/protobuf";
import { closed, type Field, field as fieldOptions } from "../../gen/ts/holdfast/options/v1/options_pb.ts";
import { commentOf } from "./comments.ts";
import { constraints, isAbsentable, isRequired, rulesOf, type Schema, sentencesOf } from "./rules.ts";

/** Which way a message travels: what is required, null or left out differs. */
export type Direction = "request" | "answer";

interface Component {
  readonly message: DescMessage;
  readonly direction: Direction;
  schema: Schema;
}

const scalars: Readonly<Partial<Record<ScalarType, Schema>>> = {
  [ScalarType.STRING]: { type: "string" },
  [ScalarType.BOOL]: { type: "boolean" },
  [ScalarType.INT32]: { type: "integer", format: "int32" },
  [ScalarType.UINT32]: { type: "integer", format: "uint32" },
  // REST JSON has 64 bits as text, as numbers of JavaScript end at 53.
  [ScalarType.INT64]: { type: "string", format: "int64" },
  [ScalarType.UINT64]: { type: "string", format: "uint64" },
  [ScalarType.FLOAT]: { type: "number", format: "float" },
  [ScalarType.DOUBLE]: { type: "number", format: "double" },
  [ScalarType.BYTES]: { type: "string", contentEncoding: "base64" },
};

const foreign: Readonly<Record<string, Schema>> = {
  "google.protobuf.Timestamp": { type: "string", format: "date-time" },
  "google.protobuf.Struct": { type: "object" },
  "google.protobuf.Value": {},
};

/** The JSON Schemas of the messages that REST reads and writes, collected while operations refer to them. */
export class Schemas {
  readonly #components = new Map<string, Component>();
  readonly #answered = new Set<DescMessage>();

  /** `answers` are the messages that methods return. */
  constructor(answers: readonly DescMessage[]) {
    for (const message of answers) this.#noteAnswered(message);
  }

  #noteAnswered(message: DescMessage): void {
    if (this.#answered.has(message)) return;
    this.#answered.add(message);
    for (const { message: inner } of message.fields) if (inner !== undefined) this.#noteAnswered(inner);
  }

  /** The components in the order of their names. */
  get components(): Record<string, Schema> {
    const byName = [...this.#components].sort(([one], [other]) => (one < other ? -1 : 1));
    return Object.fromEntries(byName.map(([name, { schema }]) => [name, schema]));
  }

  /** A reference to the schema of a message. What the path of a request holds is no part of its body. */
  refer(message: DescMessage, direction: Direction, inPath: readonly string[] = []): Schema {
    const known = foreign[message.typeName];
    if (known !== undefined) return known;
    const name = direction === "request" && this.#answered.has(message) ? `${message.name}Input` : message.name;
    const found = this.#components.get(name);
    if (found === undefined) {
      // Noted before its fields are looked at: a message may hold its own kind.
      const component: Component = { message, direction, schema: {} };
      this.#components.set(name, component);
      component.schema = this.#object(message, direction, inPath);
    } else if (found.message !== message || found.direction !== direction) {
      throw new Error(`${message.typeName} and ${found.message.typeName} would both be called ${name}`);
    }
    return { $ref: `#/components/schemas/${name}` };
  }

  #object(message: DescMessage, direction: Direction, inPath: readonly string[]): Schema {
    const fields = direction === "answer" ? message.fields : bodyFields(message, inPath);
    const required = fields.filter(direction === "answer" ? (field) => !optionsOf(field).omitAbsent : isRequired);
    return {
      type: "object",
      description: commentOf(message),
      ...(required.length === 0 ? {} : { required: required.map(({ name }) => name) }),
      properties: Object.fromEntries(fields.map((field) => [field.name, this.field(field, direction)])),
      ...(direction === "request" && isClosed(message) ? { additionalProperties: false } : {}),
      ...(direction === "request" ? sentencesOf(message) : {}),
    };
  }

  /** The schema of one field, with what its comment and its options say. */
  field(field: DescField, direction: Direction): Schema {
    const { alias } = optionsOf(field);
    const plain = this.#value(field, direction);
    const ruled = direction === "request" ? { ...plain, ...this.#ruled(field, plain) } : plain;
    return {
      ...(canBeNull(field, direction) ? orNull(ruled) : ruled),
      description: commentOf(field),
      ...(isRedacted(field) ? { format: "password" } : {}),
      ...(isRedacted(field) && direction === "request" && !comesBack(field) ? { writeOnly: true } : {}),
      ...(direction === "request" && alias.length > 0 ? { "x-aliases": alias } : {}),
    };
  }

  #ruled(field: DescField, plain: Schema): Schema {
    const ruled = constraints(rulesOf(field));
    if (plain["items"] === undefined || ruled["items"] === undefined) return ruled;
    return { ...ruled, items: { ...(plain["items"] as Schema), ...(ruled["items"] as Schema) } };
  }

  #value(field: DescField, direction: Direction): Schema {
    if (optionsOf(field).jsonTypes.length > 0) return { type: optionsOf(field).jsonTypes };
    if (field.fieldKind === "message") return this.refer(field.message, direction);
    if (field.fieldKind === "scalar") return scalarSchema(field, field.scalar);
    if (field.fieldKind === "list" && field.listKind === "message") {
      return { type: "array", items: this.refer(field.message, direction) };
    }
    if (field.fieldKind === "list" && field.listKind === "scalar") {
      return { type: "array", items: scalarSchema(field, field.scalar) };
    }
    if (field.fieldKind === "map" && field.mapKind === "scalar") {
      return { type: "object", additionalProperties: scalarSchema(field, field.scalar) };
    }
    throw new Error(`${field.parent.typeName}.${field.name} has a kind that REST does not serve`);
  }
}

/** The fields that the body of a request may hold: REST makes the mask of an update from the keys of the body. */
export function bodyFields(message: DescMessage, inPath: readonly string[]): DescField[] {
  return message.fields.filter(({ name }) => name !== "update_mask" && !inPath.includes(name));
}

/** Whether a request may hold nothing that the message does not declare. */
const isClosed = (message: DescMessage) => hasOption(message, closed) && getOption(message, closed);

/** What must not reach a log. */
const isRedacted = (field: DescField) => field.proto.options?.debugRedact === true;

/** Whether an answer of the same service shows the field again. */
function comesBack({ name, parent }: DescField): boolean {
  const answers = parent.file.services.flatMap(({ methods }) => methods.map(({ output }) => output));
  const messages = answers.flatMap((answer) => [answer, ...answer.fields.flatMap(({ message }) => message ?? [])]);
  return messages.some(({ fields }) => fields.some((field) => field.name === name && isRedacted(field)));
}

function optionsOf(field: DescField): Pick<Field, "alias" | "nullable" | "omitAbsent" | "jsonTypes"> {
  return hasOption(field, fieldOptions)
    ? getOption(field, fieldOptions)
    : { alias: [], nullable: false, omitAbsent: false, jsonTypes: [] };
}

/** An answer writes null for what is absent; an update reads null as "clear it" where the field says so (G-0.1, G-0.3). */
function canBeNull(field: DescField, direction: Direction): boolean {
  const { nullable, omitAbsent } = optionsOf(field);
  if (direction === "request") return nullable;
  return isAbsentable(field) && !omitAbsent && rulesOf(field)?.required !== true;
}

function orNull(schema: Schema): Schema {
  // Any JSON is null, too.
  if (Object.keys(schema).length === 0) return schema;
  if (schema["type"] === undefined) return { anyOf: [schema, { type: "null" }] };
  const values = schema["enum"] as unknown[] | undefined;
  return { ...schema, type: [schema["type"], "null"], ...(values === undefined ? {} : { enum: [...values, null] }) };
}

function scalarSchema(field: DescField, scalar: ScalarType): Schema {
  const schema = scalars[scalar];
  if (schema === undefined) throw new Error(`${field.parent.typeName}.${field.name} has a type without a schema`);
  return schema;
}
