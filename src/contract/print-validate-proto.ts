// Prints buf/validate/validate.proto from the descriptor that @bufbuild/protovalidate carries.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  type DescriptorProto,
  Edition,
  type EnumDescriptorProto,
  type FieldDescriptorProto,
  FieldDescriptorProto_Label as L,
  FieldDescriptorProto_Type as T,
} from "@bufbuild/protobuf/wkt";
import { file_buf_validate_validate as file } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

const proto = file.proto;
const syntax = proto.syntax || "proto2";
const out: string[] = [];
const scalar = (t: T): string => (T[t] ?? "").toLowerCase();
function fieldType(f: FieldDescriptorProto): string {
  return f.typeName !== "" ? f.typeName : scalar(f.type);
}
function label(f: FieldDescriptorProto): string {
  if (f.label === L.REPEATED) return "repeated ";
  if (f.label === L.REQUIRED) return "required ";
  return syntax === "proto2" ? "optional " : f.proto3Optional ? "optional " : "";
}
function enumBlock(e: EnumDescriptorProto, ind: string): void {
  out.push(
    `${ind}enum ${e.name} {`,
    ...(e.options?.allowAlias ? [`${ind}  option allow_alias = true;`] : []),
    ...e.value.map((v) => `${ind}  ${v.name} = ${v.number};`),
    `${ind}}`,
  );
}
function field(f: FieldDescriptorProto, ind: string, inOneof: boolean): string {
  return `${ind}${inOneof ? "" : label(f)}${fieldType(f)} ${f.name} = ${f.number};`;
}
function extend(list: readonly FieldDescriptorProto[], ind: string): void {
  for (const x of list) out.push(`${ind}extend ${x.extendee} {`, field(x, `${ind}  `, false), `${ind}}`);
}
function message(m: DescriptorProto, ind: string): void {
  out.push(`${ind}message ${m.name} {`);
  const inner = `${ind}  `;
  for (const e of m.enumType) enumBlock(e, inner);
  const entries = new Map(m.nestedType.filter((n) => n.options?.mapEntry).map((n) => [n.name, n]));
  for (const n of m.nestedType) if (!n.options?.mapEntry) message(n, inner);
  const oneofs = m.oneofDecl.map((o) => ({ name: o.name, lines: [] as string[] }));
  for (const f of m.field) {
    const entry = entries.get(f.typeName.split(".").at(-1) ?? "");
    if (entry !== undefined && f.label === L.REPEATED) {
      const [k, v] = entry.field;
      out.push(`${inner}map<${fieldType(k!)}, ${fieldType(v!)}> ${f.name} = ${f.number};`);
    } else if (f.oneofIndex !== undefined && Object.hasOwn(f, "oneofIndex") && !f.proto3Optional) {
      oneofs[f.oneofIndex]!.lines.push(field(f, `${inner}  `, true));
    } else out.push(field(f, inner, false));
  }
  for (const o of oneofs) if (o.lines.length > 0) out.push(`${inner}oneof ${o.name} {`, ...o.lines, `${inner}}`);
  for (const r of m.extensionRange)
    out.push(`${inner}extensions ${r.start} to ${r.end >= 536870912 ? "max" : r.end - 1};`);
  for (const r of m.reservedRange) out.push(`${inner}reserved ${r.start} to ${r.end - 1};`);
  if (m.reservedName.length > 0)
    out.push(`${inner}reserved ${m.reservedName.map((n) => JSON.stringify(n)).join(", ")};`);
  extend(m.extension, inner);
  out.push(`${ind}}`);
}
out.push("// Generated from the descriptor in @bufbuild/protovalidate. Do not edit.");
out.push(
  proto.syntax === "editions"
    ? `edition = "${Edition[proto.edition]!.replace("EDITION_", "")}";`
    : `syntax = "${syntax}";`,
);
out.push(`package ${proto.package};`, ...proto.dependency.map((d) => `import "${d}";`));
for (const e of proto.enumType) enumBlock(e, "");
for (const m of proto.messageType) message(m, "");
extend(proto.extension, "");
const path = join(process.argv[2] ?? "gen/proto", proto.name + (proto.name.endsWith(".proto") ? "" : ".proto"));
mkdirSync(dirname(path), { recursive: true });
writeFileSync(path, `${out.join("\n")}\n`);
console.log(`${path}: ${out.length} lines`);
