import { type DescField, type DescMessage, getOption, ScalarType } from "@bufbuild/protobuf";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import fc from "fast-check";
import { GovernanceReportSchema } from "../../../gen/ts/holdfast/governance/v1/governance_report_service_pb.ts";

/** Governance reports, good and bad, made from what the proto says of each group and field. */

export type Json = Record<string, unknown>;

/** Something wrong with a report, and the path that is to be told. */
export interface Fault {
  readonly what: string;
  /** The group that it is in, "" for the report itself. */
  readonly group: string;
  readonly path: string;
  /** Whether it takes the place of everything else that is wrong. */
  readonly alone: boolean;
  readonly apply: (report: Json) => Json;
}

const groups = GovernanceReportSchema.fields.map(({ name, message }) => ({
  name,
  fields: (message as DescMessage).fields,
}));

const rulesOf = (field: DescField) => getOption(field, fieldRules).type;

/** The values that an enumerated field, or list, may have; undefined when it is not enumerated. */
function choicesOf(field: DescField): readonly (string | number)[] | undefined {
  const rules = rulesOf(field);
  const items = rules.case === "repeated" ? rules.value.items?.type : rules;
  return (items?.case === "string" || items?.case === "int32") && items.value.in.length > 0
    ? items.value.in
    : undefined;
}

function leastOf(field: DescField): number | undefined {
  const rules = rulesOf(field);
  return rules.case === "int32" && rules.value.greaterThan.case === "gte" ? rules.value.greaterThan.value : undefined;
}

const isPattern = ({ name }: DescField) => name.endsWith("_patterns");
/** Text that can be stored; of a pattern, also what can be compiled. */
const freeText = (field: DescField) =>
  isPattern(field)
    ? fc.oneof(
        fc.stringMatching(/^[a-z0-9_ é😀-]{0,20}$/u),
        fc.constantFrom("^[A-Z][A-Z0-9_]*$", "\\pL+", "(?i)prod", ""),
      )
    : fc.string({ unit: "grapheme", maxLength: 20 }).filter((text) => !text.includes("\0"));

function validValue(field: DescField): fc.Arbitrary<unknown> {
  const choices = choicesOf(field);
  const one = choices === undefined ? freeText(field) : fc.constantFrom(...choices);
  if (field.fieldKind === "list") return fc.array<unknown>(one, { maxLength: 5 });
  if (field.scalar === ScalarType.BOOL) return fc.boolean();
  if (field.scalar === ScalarType.STRING || choices !== undefined) return one;
  return fc.integer({ min: leastOf(field) ?? 0, max: 2 ** 31 - 1 });
}

const optional = (entries: readonly (readonly [string, fc.Arbitrary<unknown>])[]) =>
  fc.record(Object.fromEntries(entries), { requiredKeys: [], noNullPrototype: true });

/** Every report that may be imported: any of the groups, with any of their fields, and empty groups and lists too. */
export const validReports: fc.Arbitrary<Json> = optional(
  groups.map(({ name, fields }) => [name, optional(fields.map((field) => [field.name, validValue(field)]))]),
);

/** Names that are in no group; some of them are in every object. */
const unknownNames = ["foo", "", "__proto__", "constructor", "toString", "hasOwnProperty", "a.b", "update_mask", "é😀"];
const camelCase = (name: string) => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** With this property, which assignment could not give every object: the object's own __proto__ among them. */
const withProperty = (object: unknown, name: string, value: unknown): Json =>
  Object.fromEntries([...Object.entries((object ?? {}) as Json), [name, value]]);

/** Values of every other type of JSON than these. */
const valuesBut = (...types: string[]) =>
  Object.entries({
    null: null,
    boolean: true,
    integer: 5,
    fraction: 1.5,
    "large number": 2 ** 31,
    "number as text": "5",
    text: "x",
    list: [],
    object: {},
  }).filter(([type]) => !types.includes(type));

function typesOf(field: DescField): string[] {
  if (field.fieldKind === "list") return ["list"];
  if (field.scalar === ScalarType.BOOL) return ["boolean"];
  return field.scalar === ScalarType.STRING ? ["text", "number as text"] : ["integer"];
}

const inGroup = (group: string, name: string, value: unknown) => (report: Json) => ({
  ...report,
  [group]: withProperty(report[group], name, value),
});

/** What can be wrong with a value of the right type. */
function wrongValues(field: DescField): { what: string; value: unknown; at: string; alone?: boolean }[] {
  const least = leastOf(field);
  const choices = choicesOf(field);
  if (field.fieldKind !== "list") {
    if (least !== undefined) return [{ what: "one below its minimum", value: least - 1, at: "" }];
    if (choices === undefined) return [];
    const other = typeof choices[0] === "number" ? choices[0] + 1 : `${choices[0]} `;
    return [{ what: "none of its values", value: other, at: "" }];
  }
  const item = choices?.[0] ?? "a";
  return [
    { what: "with 51 items", value: Array(51).fill(item), at: "", alone: true },
    ...(choices === undefined
      ? [
          { what: "with an item of 257 characters", value: [item, "😀".repeat(257)], at: "[1]" },
          { what: "with U+0000 in an item", value: [item, "a\0"], at: "[1]" },
        ]
      : [{ what: "with an item that is none of its values", value: [item, "rsa"], at: "[1]" }]),
    ...valuesBut("text", "number as text").map(([type, value]) => ({
      what: `with an item that is ${type}`,
      value: [item, value, item],
      at: "[1]",
    })),
    { what: "with a lone surrogate in an item", value: [item, "\ud800"], at: "[1]" },
    ...(isPattern(field)
      ? ["(", "(?=a)", "(?<!a)b", "(a)\\1", "[z-a]", "a{1001}"].map((pattern) => ({
          what: `with the pattern ${pattern}`,
          value: ["a", pattern],
          at: "[1]",
          alone: true,
        }))
      : []),
  ];
}

/** Everything that can be wrong with a report in one place, in every place. */
export const faults: readonly Fault[] = [
  ...unknownNames.map((name) => ({
    what: `an unknown property ${JSON.stringify(name)}`,
    group: "",
    path: name,
    alone: false,
    apply: (report: Json) => withProperty(report, name, {}),
  })),
  ...groups.flatMap(({ name: group, fields }) => [
    {
      what: `${group} in camelCase`,
      group: "",
      path: camelCase(group),
      alone: false,
      apply: (report: Json) => withProperty(report, camelCase(group), {}),
    },
    ...valuesBut("object").map(([type, value]) => ({
      what: `${group} that is ${type}`,
      group,
      path: group,
      alone: false,
      apply: (report: Json) => ({ ...report, [group]: value }),
    })),
    ...[...unknownNames, ...fields.map(({ name }) => camelCase(name))].map((name) => ({
      what: `an unknown property ${JSON.stringify(name)} of ${group}`,
      group,
      path: `${group}.${name}`,
      alone: false,
      apply: inGroup(group, name, null),
    })),
    ...fields.flatMap((field) => [
      ...valuesBut(...typesOf(field)).map(([type, value]) => ({
        what: `${group}.${field.name} that is ${type}`,
        group,
        path: `${group}.${field.name}`,
        alone: false,
        apply: inGroup(group, field.name, value),
      })),
      ...wrongValues(field).map(({ what, value, at, alone = false }) => ({
        what: `${group}.${field.name} ${what}`,
        group,
        path: `${group}.${field.name}${at}`,
        alone,
        apply: inGroup(group, field.name, value),
      })),
    ]),
  ]),
];

/** Several faults of one report, at most one in each group, which are all to be told at once. */
export const faultSets: fc.Arbitrary<readonly Fault[]> = fc.uniqueArray(
  fc.constantFrom(...faults.filter(({ alone }) => !alone)),
  { minLength: 1, maxLength: 8, selector: ({ group, path }) => (group === "" ? path : group) },
);
