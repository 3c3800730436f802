import { type DescField, type DescMessage, getOption, hasOption, isFieldSet, type Message } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence as FieldPresence } from "@bufbuild/protobuf/wkt";
import {
  type FieldRules,
  FieldRulesSchema,
  field as fieldRules,
  Ignore,
  message as messageRules,
} from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

/** A JSON Schema, or a part of one. */
export type Schema = Readonly<Record<string, unknown>>;

type Say = (value: unknown) => Schema;
const as =
  (keyword: string): Say =>
  (value) => ({ [keyword]: value });
const asNumber =
  (keyword: string): Say =>
  (value) => ({ [keyword]: Number(value) });

const ofNumbers: Readonly<Record<string, Say>> = {
  gte: as("minimum"),
  gt: as("exclusiveMinimum"),
  lte: as("maximum"),
  lt: as("exclusiveMaximum"),
  in: as("enum"),
};

/** What each rule of buf.validate is in JSON Schema. JSON Schema cannot count bytes, hence the two extensions. */
const said: Readonly<Record<string, Readonly<Record<string, Say>>>> = {
  string: {
    min_len: asNumber("minLength"),
    max_len: asNumber("maxLength"),
    min_bytes: asNumber("x-min-bytes"),
    max_bytes: asNumber("x-max-bytes"),
    pattern: as("pattern"),
    in: as("enum"),
    uuid: () => ({ format: "uuid" }),
    email: () => ({ format: "email" }),
  },
  bytes: { min_len: asNumber("x-min-bytes"), max_len: asNumber("x-max-bytes") },
  int32: ofNumbers,
  uint32: ofNumbers,
  float: ofNumbers,
  double: ofNumbers,
  bool: { const: as("const") },
  repeated: {
    min_items: asNumber("minItems"),
    max_items: asNumber("maxItems"),
    unique: as("uniqueItems"),
    items: (rules) => ({ items: constraints(rules as FieldRules) }),
  },
};

/** The rules of a field, none when it has no rules or they are switched off. */
export function rulesOf(field: DescField): FieldRules | undefined {
  const rules = hasOption(field, fieldRules) ? getOption(field, fieldRules) : undefined;
  return rules?.ignore === Ignore.ALWAYS ? undefined : rules;
}

/** What the rules of a field demand of its value, as JSON Schema. Throws for a rule that it has no words for. */
export function constraints(rules: FieldRules | undefined): Schema {
  const kind = rules?.type.case;
  if (rules === undefined || kind === undefined) return withSentences({}, rules?.cel ?? []);
  const words = said[kind] ?? {};
  const kindRules = rules.type.value as Message;
  const declared = FieldRulesSchema.fields.find(({ localName }) => localName === kind)?.message?.fields ?? [];
  const set = declared.filter((each) => isFieldSet(kindRules, each));
  const found = set.map((each): Schema => {
    const say = words[each.name];
    if (say === undefined) throw new Error(`the rule ${kind}.${each.name} has no place in the document yet`);
    return say(valueOf(kindRules, each));
  });
  return withSentences(Object.assign({}, ...found), rules.cel);
}

function valueOf(message: Message, { localName, oneof }: DescField): unknown {
  const values = message as unknown as Record<string, unknown>;
  return oneof === undefined ? values[localName] : (values[oneof.localName] as { value: unknown }).value;
}

/** The rules between the fields of a message, in words. */
export function sentencesOf(message: DescMessage): Schema {
  return withSentences({}, hasOption(message, messageRules) ? getOption(message, messageRules).cel : []);
}

/** A CEL expression is not JSON Schema; what is said to who breaks it serves a reader as well. */
function withSentences(schema: Schema, cel: readonly { readonly message: string }[]): Schema {
  return cel.length === 0 ? schema : { ...schema, "x-rules": cel.map(({ message }) => message) };
}

/** Whether a request without the field breaks the field's rules: the rules of what cannot be absent hold for "" and []. */
export function isRequired(field: DescField): boolean {
  const rules = rulesOf(field);
  if (rules === undefined) return false;
  if (rules.required) return true;
  if (isAbsentable(field) || rules.ignore === Ignore.IF_ZERO_VALUE) return false;
  const { type } = rules;
  if (type.case === "repeated") return type.value.minItems > 0n;
  if (type.case !== "string") return false;
  return type.value.minLen > 0n || type.value.wellKnown.case !== undefined;
}

/** Whether a message can do without the field: it then reads as absent, not as "" or 0. */
export const isAbsentable = (field: DescField) => field.presence !== FieldPresence.IMPLICIT;
