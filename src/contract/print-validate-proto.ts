import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  type DescriptorProto,
  Edition,
  type EnumDescriptorProto,
  type FieldDescriptorProto,
  type FileDescriptorProto,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
} from "@bufbuild/protobuf/wkt";
import { file_buf_validate_validate as validateFile } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

/** Ends of ranges are exclusive in descriptors; this one means "max". */
const endOfExtensions = 536_870_912;
const isProto2 = validateFile.proto.syntax === "" || validateFile.proto.syntax === "proto2";

/**
 * Prints buf/validate/validate.proto into a folder. No npm package carries the file, but @bufbuild/protovalidate carries
 * its descriptor, and our protos must be built against exactly that.
 */
export function printValidateProto(folder: string): void {
  const { proto } = validateFile;
  const name = proto.name.endsWith(".proto") ? proto.name : `${proto.name}.proto`;
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  // Whole or not at all: another process may be building the protos.
  const unfinished = `${path}.${process.pid}`;
  writeFileSync(unfinished, `${fileLines(proto).join("\n")}\n`);
  renameSync(unfinished, path);
}

function fileLines(proto: FileDescriptorProto): string[] {
  return [
    "// Generated from the descriptor in @bufbuild/protovalidate. Do not edit.",
    proto.syntax === "editions"
      ? `edition = "${Edition[proto.edition]?.replace("EDITION_", "")}";`
      : `syntax = "${proto.syntax || "proto2"}";`,
    `package ${proto.package};`,
    ...proto.dependency.map((dependency) => `import "${dependency}";`),
    ...proto.enumType.flatMap(enumLines),
    ...proto.messageType.flatMap(messageLines),
    ...proto.extension.flatMap(extendLines),
  ];
}

function messageLines(message: DescriptorProto): string[] {
  const { enumType, nestedType, extensionRange, reservedRange, reservedName, extension } = message;
  const names = reservedName.map((name) => JSON.stringify(name)).join(", ");
  const body = [
    ...enumType.flatMap(enumLines),
    ...nestedType.filter(({ options }) => !options?.mapEntry).flatMap(messageLines),
    ...fieldLines(message),
    ...oneofLines(message),
    ...extensionRange.map(({ start, end }) => `extensions ${start} to ${end >= endOfExtensions ? "max" : end - 1};`),
    ...reservedRange.map(({ start, end }) => `reserved ${start} to ${end - 1};`),
    ...(names === "" ? [] : [`reserved ${names};`]),
    ...extension.flatMap(extendLines),
  ];
  return [`message ${message.name} {`, ...indented(body), "}"];
}

function fieldLines(message: DescriptorProto): string[] {
  const entries = new Map(
    message.nestedType.filter(({ options }) => options?.mapEntry).map((entry) => [entry.name, entry.field]),
  );
  return message.field
    .filter((field) => !isInOneof(field))
    .map((field) => {
      const [key, value] = entries.get(field.typeName.split(".").at(-1) ?? "") ?? [];
      return key === undefined || value === undefined
        ? `${labelOf(field)}${fieldLine(field)}`
        : `map<${typeOf(key)}, ${typeOf(value)}> ${field.name} = ${field.number};`;
    });
}

function oneofLines({ oneofDecl, field }: DescriptorProto): string[] {
  return oneofDecl.flatMap(({ name }, index) => {
    const members = field.filter((each) => isInOneof(each) && each.oneofIndex === index);
    return members.length === 0 ? [] : [`oneof ${name} {`, ...indented(members.map(fieldLine)), "}"];
  });
}

function enumLines({ name, options, value }: EnumDescriptorProto): string[] {
  const values = value.map((each) => `${each.name} = ${each.number};`);
  return [
    `enum ${name} {`,
    ...indented([...(options?.allowAlias ? ["option allow_alias = true;"] : []), ...values]),
    "}",
  ];
}

function extendLines(extension: FieldDescriptorProto): string[] {
  return [`extend ${extension.extendee} {`, ...indented([`${labelOf(extension)}${fieldLine(extension)}`]), "}"];
}

// An unset index reads as 0 through the prototype of the descriptor.
const isInOneof = (field: FieldDescriptorProto) => Object.hasOwn(field, "oneofIndex") && !field.proto3Optional;

const fieldLine = (field: FieldDescriptorProto) => `${typeOf(field)} ${field.name} = ${field.number};`;

function typeOf({ typeName, type }: FieldDescriptorProto): string {
  return typeName === "" ? (Type[type] ?? "").toLowerCase() : typeName;
}

function labelOf({ label, proto3Optional }: FieldDescriptorProto): string {
  if (label === Label.REPEATED) return "repeated ";
  if (label === Label.REQUIRED) return "required ";
  return isProto2 || proto3Optional ? "optional " : "";
}

const indented = (lines: readonly string[]) => lines.map((line) => `  ${line}`);

if (import.meta.main) printValidateProto(process.argv[2] ?? "gen/proto");
