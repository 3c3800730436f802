import {
  type DescField,
  type DescMessage,
  getOption,
  hasOption,
  type JsonValue,
  type Message,
  toJson,
} from "@bufbuild/protobuf";
import { type Timestamp, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { field as fieldOptions } from "../../../gen/ts/holdfast/options/v1/options_pb.ts";
import type { FieldFault } from "../errors.ts";

type Check = (value: unknown, path: string, faults: FieldFault[]) => unknown;
interface FieldCheck {
  readonly name: string;
  readonly local: string;
  /** The oneof that it is a field of. */
  readonly oneof: string | undefined;
  readonly check: Check;
}

const deepest = 32;
const nulFault = "must not contain U+0000";
const checksOf = new Map<DescMessage, readonly FieldCheck[]>();

/**
 * Finds what is valid protobuf and cannot be stored as given: U+0000 in text, times that no calendar has, and in free
 * JSON also lone surrogates, numbers without end and deep nesting. Ids become lower case, as they are stored (G-0.6). The message's shape is
 * looked at once.
 */
export function checkTexts(schema: DescMessage, message: Message, faults: FieldFault[], prefix = ""): void {
  const plain = message as unknown as Record<string, unknown>;
  for (const { name, local, oneof, check } of checks(schema)) {
    // A field of a oneof stands under the name of that, when it is the one that was chosen.
    const holder = oneof === undefined ? plain : (plain[oneof] as Record<string, unknown>);
    if (oneof !== undefined && holder["case"] !== local) continue;
    const at = oneof === undefined ? local : "value";
    const value = holder[at];
    if (value === undefined) continue;
    const kept = check(value, prefix + name, faults);
    if (kept !== value) holder[at] = kept;
  }
}

function checks(schema: DescMessage): readonly FieldCheck[] {
  let found = checksOf.get(schema);
  if (found === undefined) {
    found = schema.fields.flatMap((field) => {
      const check = checkOf(field);
      return check === undefined
        ? []
        : [{ name: field.name, local: field.localName, oneof: field.oneof?.localName, check }];
    });
    checksOf.set(schema, found);
  }
  return found;
}

/** PostgreSQL's text holds every character but U+0000; what is sealed may hold that too. */
function checkOf(field: DescField): Check | undefined {
  const isSealed = field.proto.options?.debugRedact === true;
  if (field.fieldKind === "scalar") return isUuid(field) ? toLowerCase : isSealed ? undefined : checkText;
  if (field.fieldKind === "list" && field.listKind === "scalar") return each(checkText);
  if (field.fieldKind === "list" && field.listKind === "message") return each(messageCheck(field.message));
  if (field.message?.typeName === "google.protobuf.Value") return valueCheck(jsonTypesOf(field));
  return field.fieldKind === "message" ? messageCheck(field.message) : undefined;
}

const toLowerCase: Check = (value) => (value as string).toLowerCase();

const checkText: Check = (value, path, faults) => {
  if (typeof value === "string" && value.includes("\0")) faults.push({ field: path, message: nulFault });
  return value;
};

const each =
  (check: Check): Check =>
  (values, path, faults) => {
    (values as unknown[]).forEach((value, index) => check(value, `${path}[${index}]`, faults));
    return values;
  };

function messageCheck(schema: DescMessage): Check {
  if (schema.typeName === "google.protobuf.Struct") return checkJson;
  if (schema.typeName === "google.protobuf.Timestamp") return checkTime;
  return (value, path, faults) => {
    checkTexts(schema, value as Message, faults, `${path}.`);
    return value;
  };
}

/**
 * Times begin and end with the years 1 and 9999, as timestamp.proto says; proto JSON takes no others. What is finer than
 * a millisecond is cut off: rounded up, the last instant would be one of the year 10000.
 */
const checkTime: Check = (value, path, faults) => {
  const time = value as Timestamp;
  const { seconds, nanos } = time;
  time.nanos = nanos - (nanos % 1_000_000);
  if (seconds < -62_135_596_800n || seconds > 253_402_300_799n || nanos < 0 || nanos > 999_999_999) {
    faults.push({ field: path, message: "must be a time between the years 1 and 9999" });
  }
  return value;
};

const checkJson: Check = (value, path, faults) => {
  const message = jsonFault(value, 1);
  if (message !== undefined) faults.push({ field: path, message });
  return value;
};

/** JSON of these types, or of any when there are none. */
const valueCheck =
  (types: readonly string[]): Check =>
  (value, path, faults) => {
    const message = valueFault(value as Value, types);
    if (message !== undefined) faults.push({ field: path, message });
    return value;
  };

function valueFault(value: Value, types: readonly string[]): string | undefined {
  const json = jsonOf(value);
  if (json === undefined) return "must be JSON";
  const fault = jsonFault(json, 1);
  if (fault !== undefined || json === null || types.length === 0) return fault;
  if (types.some((type) => isOfType(json, type))) return undefined;
  return `must be ${types.map((type) => (type === "string" ? "a string" : `an ${type}`)).join(" or ")}`;
}

/** Undefined for what is none, as it may come over gRPC: a number without end, or nothing at all. */
function jsonOf(value: Value): JsonValue | undefined {
  try {
    return toJson(ValueSchema, value);
  } catch {
    return undefined;
  }
}

/** Whether JSON is of a type of JSON Schema that json_types names. */
const isOfType = (json: JsonValue, type: string): boolean =>
  type === "integer" ? Number.isInteger(json) : type === (Array.isArray(json) ? "array" : typeof json);

const jsonTypesOf = (field: DescField) =>
  hasOption(field, fieldOptions) ? getOption(field, fieldOptions).jsonTypes : [];

function jsonFault(value: unknown, depth: number): string | undefined {
  if (typeof value === "string") return textFault(value);
  if (typeof value === "number") return Number.isFinite(value) ? undefined : "must not contain numbers beyond 1.8e308";
  if (typeof value !== "object" || value === null) return undefined;
  if (depth > deepest) return `must not be nested deeper than ${deepest} levels`;
  const isList = Array.isArray(value);
  for (const [key, item] of Object.entries(value)) {
    const fault = (isList ? undefined : textFault(key)) ?? jsonFault(item, depth + 1);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function textFault(text: string): string | undefined {
  if (text.includes("\0")) return nulFault;
  return text.isWellFormed() ? undefined : "must not contain lone surrogates";
}

function isUuid(field: DescField): boolean {
  if (!hasOption(field, fieldRules)) return false;
  const { type } = getOption(field, fieldRules);
  return type.case === "string" && type.value.wellKnown.case === "uuid" && type.value.wellKnown.value;
}
