import {
  create,
  type DescField,
  type DescMessage,
  fromJson,
  getOption,
  hasOption,
  type JsonValue,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { FieldMaskSchema } from "@bufbuild/protobuf/wkt";
import { field as fieldOptions } from "../../../gen/ts/holdfast/options/v1/options_pb.ts";
import { readClosed } from "../../standards/closed-messages.ts";
import { type FieldFault, invalid, invalidField } from "../errors.ts";
import { asRequest } from "./body-field.ts";
import type { Binding } from "./http-rule.ts";
import { parseJsonObject } from "./json-text.ts";
import { checkGivenLists } from "./list-lengths.ts";

/** The parts of a REST request that become one message. */
export interface RestRequest {
  readonly binding: Binding;
  readonly path: Readonly<Record<string, string | undefined>>;
  /** The query without its question mark. */
  readonly query: string;
  readonly body: Buffer;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  readonly ifMatch: string | undefined;
}

type Values = Record<string, JsonValue>;

/**
 * Makes the message of a request out of path, query, body and If-Match. What closed messages refuse is left out of it and
 * noted in `faults`; throws VALIDATION_ERROR naming every other fault.
 */
export function readMessage(request: RestRequest, faults: FieldFault[]): Message {
  const { binding, path, query } = request;
  const schema = binding.method.input;
  if (query === "" && binding.body === "" && request.ifMatch === undefined) return fromPathOnly(schema, binding, path);
  const mask: string[] = [];
  const given =
    binding.body === "*"
      ? readClosed(schema, asRequest(schema, readBody(request)), "declared", faults)
      : parseQuery(query);
  const values = canonical(schema, given, binding.body === "*" ? mask : undefined, "");
  for (const name of binding.pathFields) values[name] = path[name] ?? "";
  if (request.ifMatch !== undefined) addIfMatch(schema, values, request.ifMatch);
  const message = fromValues(schema, values);
  const maskField = schema.fields.find(({ name }) => name === "update_mask");
  if (maskField !== undefined) setField(message, maskField, create(FieldMaskSchema, { paths: mask.sort() }));
  return message;
}

function fromPathOnly(schema: DescMessage, binding: Binding, path: RestRequest["path"]): Message {
  const message = create(schema);
  for (const field of schema.fields) {
    if (binding.pathFields.includes(field.name)) setField(message, field, path[field.name] ?? "");
  }
  return message;
}

function setField(message: Message, field: DescField, value: unknown): void {
  (message as unknown as Record<string, unknown>)[field.localName] = value;
}

function readBody({ binding, body, contentType, contentEncoding }: RestRequest): Record<string, unknown> {
  if ((contentEncoding || "identity") !== "identity") {
    throw invalidField("header.Content-Encoding", "must be absent: bodies are sent as they are");
  }
  const [type = "", ...parameters] = (contentType ?? "application/json").toLowerCase().split(";");
  const charset = parameters.map((each) => each.trim()).find((each) => each.startsWith("charset="));
  const isUtf8 = charset === undefined || /^charset="?utf-?8"?$/.test(charset);
  if (type.trim() === "application/json" && isUtf8) return parseJsonObject(body);
  if (binding.acceptsForm && type.trim() === "application/x-www-form-urlencoded" && isUtf8) {
    return parseQuery(body.toString("latin1"));
  }
  const accepted = binding.acceptsForm ? "application/x-www-form-urlencoded or application/json" : "application/json";
  throw invalidField("header.Content-Type", `must be ${accepted}, in UTF-8`);
}

/** Names and values of a query or form. A name that comes more than once has a list of values. */
function parseQuery(text: string): Record<string, unknown> {
  const found = new Map<string, string[]>();
  for (const pair of text.split("&")) {
    if (pair === "") continue;
    const cut = pair.indexOf("=");
    const name = decode(cut === -1 ? pair : pair.slice(0, cut), "query");
    const value = decode(cut === -1 ? "" : pair.slice(cut + 1), name);
    const values = found.get(name);
    if (values === undefined) found.set(name, [value]);
    else values.push(value);
  }
  return Object.fromEntries([...found].map(([name, values]) => [name, values.length === 1 ? values[0] : values]));
}

function decode(text: string, field: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw invalidField(field, "is not percent-encoded UTF-8");
  }
}

/**
 * Renames what was given to the proto's names, drops what is unknown and what is null, and notes in `mask` which fields
 * of an update were mentioned (G-0.1 to G-0.3).
 */
function canonical(
  schema: DescMessage,
  given: Record<string, unknown>,
  mask: string[] | undefined,
  prefix: string,
): Values {
  const names = namesOf(schema);
  const values: Values = {};
  const seen = new Map<string, string>();
  for (const [name, value] of Object.entries(given)) {
    const field = names.get(name);
    if (field === undefined || field.name === "update_mask") continue;
    const path = `${prefix}${field.name}`;
    const before = seen.get(field.name);
    if (before !== undefined && before !== JSON.stringify(value))
      throw invalidField(path, "is given twice, differently");
    seen.set(field.name, JSON.stringify(value));
    if (value === null) {
      if (hasOption(field, fieldOptions) && getOption(field, fieldOptions).nullable) mask?.push(path);
    } else if (field.fieldKind === "message" && isOurs(field.message) && isObject(value)) {
      values[field.name] = canonical(field.message, value, mask, `${path}.`);
    } else {
      mask?.push(path);
      values[field.name] = fromText(field, canonicalItems(field, value, path));
    }
  }
  return values;
}

/** The same for the items of a list of messages, which an update replaces as a whole. */
function canonicalItems(field: DescField, value: unknown, path: string): unknown {
  if (field.fieldKind !== "list" || field.listKind !== "message" || !Array.isArray(value)) return value;
  return value.map((item: unknown, index) =>
    isObject(item) ? canonical(field.message, item, undefined, `${path}[${index}].`) : item,
  );
}

/**
 * A query holds texts only: "true" and a single item of a list become what proto JSON expects. An integer as text is
 * its digits (G-0.5); proto JSON would take "0x5" and "5e0" too.
 */
function fromText(field: DescField, value: unknown): JsonValue {
  if (field.fieldKind === "list" && typeof value === "string") return [value];
  if (typeof value === "string" && isInteger(field) && !/^-?\d+$/.test(value)) return "not an integer";
  if (field.fieldKind === "scalar" && field.scalar === ScalarType.BOOL && (value === "true" || value === "false")) {
    return value === "true";
  }
  return value as JsonValue;
}

const isInteger = (field: DescField) => field.fieldKind === "scalar" && expected(field) === "an integer";
const isOurs = (schema: DescMessage) => schema.typeName.startsWith("holdfast.");
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const nameTables = new Map<DescMessage, Map<string, DescField>>();

/** Every name under which a request may give a field: snake_case, camelCase, and its aliases. */
function namesOf(schema: DescMessage): ReadonlyMap<string, DescField> {
  let names = nameTables.get(schema);
  if (names === undefined) {
    names = new Map();
    for (const field of schema.fields) {
      const aliases = hasOption(field, fieldOptions) ? getOption(field, fieldOptions).alias : [];
      const camelCase = (name: string) => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
      for (const name of [field.name, ...aliases].flatMap((each) => [each, camelCase(each)])) names.set(name, field);
    }
    nameTables.set(schema, names);
  }
  return names;
}

/** If-Match: "3" says the same as expected_version: 3 (G-0.14). */
function addIfMatch(schema: DescMessage, values: Values, ifMatch: string): void {
  if (!schema.fields.some(({ name }) => name === "expected_version") || ifMatch.trim() === "*") return;
  const [, version] = /^(?:W\/)?"?(\d{1,9})"?$/.exec(ifMatch.trim()) ?? [];
  if (version === undefined) throw invalidField("header.If-Match", 'must be a version, as in "3"');
  const named = values["expected_version"];
  if (named !== undefined && Number(named) !== Number(version)) {
    throw invalidField("expected_version", "differs from the header If-Match");
  }
  values["expected_version"] = Number(version);
}

/** The faults of JSON that proto JSON does not take. */
export const faultsOf = (schema: DescMessage, given: Record<string, unknown>): FieldFault[] =>
  findFaults(schema, canonical(schema, given, undefined, ""), "");

function fromValues(schema: DescMessage, values: Values): Message {
  checkGivenLists(schema, values);
  try {
    return fromJson(schema, values, { ignoreUnknownFields: true });
  } catch (error) {
    const faults = findFaults(schema, values, "");
    if (faults.length === 0) throw invalid([{ field: "body", message: "cannot be read" }]);
    throw Object.assign(invalid(faults), { cause: error });
  }
}

/** fromJson stops at the first fault and names no path: once it threw, every leaf is tried by itself. */
function findFaults(schema: DescMessage, values: Values, prefix: string): FieldFault[] {
  const faults: FieldFault[] = [];
  for (const field of schema.fields) {
    const value = values[field.name];
    if (value === undefined) continue;
    const path = `${prefix}${field.name}`;
    if (field.fieldKind === "message" && isOurs(field.message)) {
      if (isObject(value)) faults.push(...findFaults(field.message, value, `${path}.`));
      else faults.push({ field: path, message: "must be an object" });
    } else if (field.fieldKind === "list") {
      faults.push(...findListFaults(schema, field, value, path));
    } else if (!reads(schema, field, value)) faults.push({ field: path, message: `must be ${expected(field)}` });
  }
  return faults;
}

function findListFaults(schema: DescMessage, field: DescField, value: JsonValue, path: string): FieldFault[] {
  if (!Array.isArray(value)) return [{ field: path, message: "must be a list" }];
  return value.flatMap((item, index): FieldFault[] => {
    const at = `${path}[${index}]`;
    if (reads(schema, field, [item])) return [];
    if (field.fieldKind === "list" && field.listKind === "message" && isObject(item)) {
      return findFaults(field.message, item, `${at}.`);
    }
    return [{ field: at, message: `must be ${expected(field)}` }];
  });
}

function reads(schema: DescMessage, field: DescField, value: JsonValue): boolean {
  try {
    fromJson(schema, { [field.name]: value }, { ignoreUnknownFields: true });
    return true;
  } catch {
    return false;
  }
}

function expected(field: DescField): string {
  if (field.message?.typeName === "google.protobuf.Timestamp") return "a time as in 2026-11-20T09:15:02Z";
  if (field.message?.typeName === "google.protobuf.Value") return "JSON";
  if (field.message !== undefined) return "an object";
  switch (field.scalar) {
    case ScalarType.STRING:
      return "a string";
    case ScalarType.BOOL:
      return "true or false";
    case ScalarType.BYTES:
      return "base64";
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return "a number";
    default:
      return "an integer";
  }
}
