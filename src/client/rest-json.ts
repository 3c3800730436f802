import { type DescField, type DescMessage, getOption, type Message, toJson } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { field as fieldOptions } from "../../gen/ts/holdfast/options/v1/options_pb.ts";

/** A record as the REST API answers it: snake_case, null for what is absent, times in UTC with milliseconds. */
export function restJson(schema: DescMessage, record: Message): Record<string, unknown> {
  const json: Record<string, unknown> = {};
  for (const field of schema.fields) {
    const value = (record as unknown as Record<string, unknown>)[field.localName];
    const isOmitted = getOption(field, fieldOptions).omitAbsent;
    // An empty list is all that is left of an absent one.
    const isAbsent = value === undefined || (isOmitted && Array.isArray(value) && value.length === 0);
    if (!isAbsent) json[field.name] = valueJson(field, value);
    else if (!isOmitted) json[field.name] = null;
  }
  return json;
}

function valueJson({ message }: DescField, value: unknown): unknown {
  if (message === undefined) return value;
  return Array.isArray(value) ? value.map((each) => messageJson(message, each)) : messageJson(message, value);
}

function messageJson(schema: DescMessage, value: unknown): unknown {
  if (schema.typeName === "google.protobuf.Timestamp") return timestampDate(value as Timestamp).toISOString();
  if (schema.typeName === "google.protobuf.Struct") return value; // already a plain object
  if (schema.typeName === "google.protobuf.Value") return toJson(ValueSchema, value as Value);
  return restJson(schema, value as Message);
}
