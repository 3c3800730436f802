import { create, type DescField, type DescMessage, getOption, hasOption, ScalarType, toJson } from "@bufbuild/protobuf";
import { type Timestamp, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { field as fieldOptions } from "../../../gen/ts/holdfast/options/v1/options_pb.ts";

type Plain = Record<string, unknown>;
type Render = (answer: object) => Plain;
type RenderValue = (value: unknown) => unknown;

const renderers = new Map<DescMessage, Render>();

/**
 * A message as REST JSON (G-0.1, G-0.4): snake_case, every field present, null for what is absent, times in UTC with
 * milliseconds. `answer` is a message, or what `create` would make one of: making it would cost as much as rendering it.
 * The shape of the schema is looked at once; proto JSON would leave absent fields and milliseconds out.
 */
export function renderJson(schema: DescMessage, answer: object): Plain {
  return rendererOf(schema)(answer);
}

function rendererOf(schema: DescMessage): Render {
  let renderer = renderers.get(schema);
  if (renderer === undefined) {
    const empty = create(schema) as unknown as Plain;
    const fields = schema.fields.map((field) => {
      const { name, localName: local } = field;
      const isOmitted = hasOption(field, fieldOptions) && getOption(field, fieldOptions).omitAbsent;
      const isOmittedList = isOmitted && field.fieldKind === "list";
      return { name, local, isOmitted, isOmittedList, absent: empty[local] ?? null, render: valueRenderer(field) };
    });
    renderer = (answer) => {
      const plain: Plain = {};
      for (const { name, local, isOmitted, isOmittedList, absent, render } of fields) {
        const value = (answer as Plain)[local];
        if (isOmittedList && isEmptyIn(answer as Plain, value as readonly unknown[] | undefined)) continue;
        if (value !== undefined) plain[name] = render === undefined ? value : render(value);
        else if (!isOmitted) plain[name] = absent;
      }
      return plain;
    };
    renderers.set(schema, renderer);
  }
  return renderer;
}

/** A message has an empty list where none was meant; what `create` would make one of has one only where it was. */
const isEmptyIn = (answer: Plain, list: readonly unknown[] | undefined) =>
  answer["$typeName"] !== undefined && list?.length === 0;

/** How a present value is written; undefined when it is its own JSON. */
function valueRenderer(field: DescField): RenderValue | undefined {
  switch (field.fieldKind) {
    case "message":
      return messageRenderer(field.message);
    case "list": {
      const each = field.listKind === "message" ? messageRenderer(field.message) : scalarRenderer(field.scalar);
      return each === undefined ? undefined : (values) => (values as unknown[]).map(each);
    }
    case "scalar":
      return scalarRenderer(field.scalar);
    case "map": {
      if (field.mapKind !== "scalar") break;
      const each = scalarRenderer(field.scalar);
      return each === undefined ? undefined : (map) => eachValue(map as Plain, each);
    }
    case "enum":
      break;
  }
  throw new Error(`${field.parent.typeName}.${field.name} has a kind that REST does not serve`);
}

const eachValue = (map: Plain, render: RenderValue): Plain =>
  Object.fromEntries(Object.entries(map).map(([key, value]) => [key, render(value)]));

function scalarRenderer(scalar: ScalarType | undefined): RenderValue | undefined {
  if (scalar === ScalarType.BYTES) return (value) => Buffer.from(value as Uint8Array).toString("base64");
  const isLong = scalar === ScalarType.INT64 || scalar === ScalarType.UINT64;
  return isLong ? (value) => String(value) : undefined;
}

function messageRenderer(schema: DescMessage): RenderValue | undefined {
  if (schema.typeName === "google.protobuf.Timestamp") return (value) => isoTime(value as Timestamp);
  if (schema.typeName === "google.protobuf.Struct") return undefined; // already a plain object
  if (schema.typeName === "google.protobuf.Value") return (value) => toJson(ValueSchema, value as Value);
  // Looked up when called: a message may hold its own kind.
  return (value) => rendererOf(schema)(value as object);
}

const dayMs = 86_400_000;
let lastDay = Number.NaN;
let lastDate = "";

/** As toISOString, which costs a tenth of a list: most times of an answer share their day. */
function isoTime({ seconds, nanos }: Timestamp): string {
  const ms = Number(seconds) * 1000 + Math.trunc(nanos / 1e6);
  const day = Math.floor(ms / dayMs);
  if (day !== lastDay) {
    const text = new Date(day * dayMs).toISOString();
    lastDate = text.slice(0, text.indexOf("T") + 1);
    lastDay = day;
  }
  const rest = ms - day * dayMs;
  const millis = rest % 1000;
  const fraction = millis < 10 ? `00${millis}` : millis < 100 ? `0${millis}` : `${millis}`;
  const hour = Math.trunc(rest / 3_600_000);
  const minute = Math.trunc(rest / 60_000) % 60;
  const second = Math.trunc(rest / 1000) % 60;
  return `${lastDate}${twoDigits(hour)}:${twoDigits(minute)}:${twoDigits(second)}.${fraction}Z`;
}

const twoDigits = (value: number) => (value < 10 ? `0${value}` : `${value}`);
