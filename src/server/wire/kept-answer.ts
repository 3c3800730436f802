import {
  type DescField,
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  getOption,
  hasOption,
  type Message,
  toBinary,
} from "@bufbuild/protobuf";
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { type FieldMask, FieldMaskSchema } from "@bufbuild/protobuf/wkt";
import { field as fieldOptions } from "../../../gen/ts/holdfast/options/v1/options_pb.ts";
import { type Answer, messageOf } from "./unary-calls.ts";

/**
 * Answers as bytes. A message does not tell an empty list from none, which REST does where absent lists are omitted: the
 * paths of those that were there and empty stand behind the message, in a field that no message declares.
 */

/** The highest number that a field may have; who does not know the field skips it. */
const maskNumber = 2 ** 29 - 1;

type Plain = Record<string, unknown>;

/** The bytes of an answer, and the message that it is. */
export function encodeAnswer(method: DescMethodUnary, answer: Answer): { bytes: Uint8Array; message: Message } {
  const message = messageOf(method, answer);
  const bytes = toBinary(method.output, message);
  const paths = emptyLists(method.output, answer, "");
  if (paths.length === 0) return { bytes, message };
  const mask = toBinary(FieldMaskSchema, { $typeName: "google.protobuf.FieldMask", paths });
  const behind = new BinaryWriter().tag(maskNumber, WireType.LengthDelimited).bytes(mask).finish();
  return { bytes: Buffer.concat([bytes, behind]), message };
}

/** The answer of which `encodeAnswer` made the bytes, with the message that it is. */
export function decodeAnswer(method: DescMethodUnary, bytes: Uint8Array): { answer: Answer; message: Message } {
  const message = fromBinary(method.output, bytes);
  const kept = message.$unknown?.find(({ no }) => no === maskNumber);
  if (kept === undefined) return { answer: message, message };
  delete message.$unknown;
  const { paths }: FieldMask = fromBinary(FieldMaskSchema, new BinaryReader(kept.data).bytes());
  return { answer: withoutAbsentLists(method.output, message, new Set(paths), ""), message };
}

/** Dotted paths of the lists that are there and empty. Messages have them all, and tell nothing by that. */
function emptyLists(schema: DescMessage, answer: Plain, prefix: string): string[] {
  if (answer["$typeName"] !== undefined) return [];
  return schema.fields.flatMap((field) => {
    const value = answer[field.localName];
    const path = prefix + field.name;
    if (isOmittedList(field)) return Array.isArray(value) && value.length === 0 ? [path] : [];
    if (field.fieldKind !== "message" || typeof value !== "object" || value === null) return [];
    return emptyLists(field.message, value as Plain, `${path}.`);
  });
}

/** What `create` would make the message of, without the empty lists that no path names. */
function withoutAbsentLists(
  schema: DescMessage,
  message: Message,
  paths: ReadonlySet<string>,
  prefix: string,
): Answer & Plain {
  const { $typeName: _, ...answer } = message as Message & Plain;
  for (const field of schema.fields) {
    const value = answer[field.localName];
    const path = prefix + field.name;
    if (isOmittedList(field)) {
      if ((value as unknown[]).length === 0 && !paths.has(path)) delete answer[field.localName];
    } else if (
      field.fieldKind === "message" &&
      value !== undefined &&
      [...paths].some((each) => each.startsWith(`${path}.`))
    ) {
      answer[field.localName] = withoutAbsentLists(field.message, value as Message, paths, `${path}.`);
    }
  }
  return answer;
}

const isOmittedList = (field: DescField) =>
  field.fieldKind === "list" && hasOption(field, fieldOptions) && getOption(field, fieldOptions).omitAbsent;
