import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { RestMethod } from "../../src/server/wire/http-rule.ts";
import { useServer } from "../harness/server.ts";
import { errorLines } from "../server/wire/raw-http.ts";
import { doorsOf } from "./caller.ts";
import { callerOf, nameOf, type Sample, samples } from "./samples.ts";
import { allMethods } from "./services.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const methods = (await allMethods()).filter(
  ({ parent, input }) =>
    /^holdfast\.(auth|keytabs|agents|discovery|gateways|rotation|links|certificates|governance)\./.test(
      parent.typeName,
    ) && input.fields.length > 0,
);

const texts = [
  "",
  " ",
  "a\0b",
  "\u202etxt.exe",
  "\ufeff\u200b",
  "\u{1f600}".repeat(255),
  "\u{1f600}".repeat(256),
  "x".repeat(70_000),
  "'; drop table user_account; --",
  "%_\\",
  "../..",
  "__proto__",
  "constructor",
  "me",
];
const loneSurrogates = ["\ud800", "a\udfff"];
const integers = [0, -1, 2_147_483_647, -2_147_483_648, "7", "", "1e3", 1.5];
const times = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2026-02-30T00:00:00Z", "now", 0];
const objects = [{}, { role: "x" }, { project_id: "x" }, { project_id: null, role: null }, null, "x", 5];
const json = [...texts, ...loneSurrogates, ...integers, 1e308, { [texts[2] as string]: "x" }, { type: {} }, [[[]]]];
const bytes = ["", "*", "AA==", "A".repeat(88), "A".repeat(520), "A".repeat(90_000)];

/** JSON that a field of this kind should never be given, and some that it may; within messages of a list too. */
function hostileFor(field: DescField, given: unknown): unknown[] {
  const items = itemsFor(field);
  if (Array.isArray(given) && field.message !== undefined) items.push(...elementsFor(field.message, given[0]));
  if (field.message?.typeName === "google.protobuf.Struct") items.push(...settingsFor((given ?? {}) as Sample));
  if (field.fieldKind !== "list") return [...items, [], {}, null, true];
  return [...items.map((item) => [item]), items, Array(2000).fill(items[3]), [[]], {}, "x", null];
}

/** A message of a list with one of its fields changed. */
const elementsFor = ({ fields }: DescMessage, element: object): unknown[] =>
  fields.flatMap((inner) =>
    hostileFor(inner, undefined).map((value) => {
      const { [inner.name]: _, ...others } = element as Sample;
      return { ...others, [inner.localName]: value };
    }),
  );

/** Settings with one of them changed. */
const settingsFor = (settings: Sample): unknown[] =>
  Object.keys(settings).flatMap((name) => json.map((value) => ({ ...settings, [name]: value })));

function itemsFor(field: DescField): unknown[] {
  if (field.message?.typeName === "google.protobuf.Timestamp") return times;
  if (field.message?.typeName === "google.protobuf.Value") return [...json, ...json.map((type) => ({ type }))];
  if (field.message !== undefined) return objects;
  const kind = field.scalar === undefined ? "" : String(field.proto.type);
  if (kind === "5" || kind === "13") return integers;
  return kind === "12" ? bytes : [...texts, ...loneSurrogates];
}

async function sampleOf(method: RestMethod): Promise<Sample> {
  return (await samples[nameOf(method)]?.(server)) ?? {};
}

describe("Hostile input", () => {
  for (const method of methods) {
    const doors = doorsOf(method).filter(([name]) => name !== "Connect");

    it(`is refused by ${method.name} or taken as it is, over REST and gRPC: never an unexpected error`, async function () {
      this.timeout(240_000);
      const caller = await callerOf(server, method);
      const sample = await sampleOf(method);
      const unexpected: string[] = [];
      for (const field of method.input.fields) {
        for (const value of hostileFor(field, sample[field.name])) {
          const request = { ...sample, [field.name]: value };
          const endings = await Promise.all(
            doors.map(([, call]) => call(caller, method, request).catch(() => undefined)),
          );
          for (const [at, ending] of endings.entries()) {
            if (ending?.ok === false && ["INTERNAL_ERROR", "SERVICE_UNAVAILABLE", ""].includes(ending.code)) {
              const [door] = doors[at] ?? [];
              unexpected.push(`${door} ${field.name} ${JSON.stringify(value).slice(0, 60)}: ${ending.code}`);
            }
          }
        }
      }

      expect(unexpected).to.deep.equal([]);
    });
  }

  after(() => expect(errorLines(server.log)).to.deep.equal([]));
});
