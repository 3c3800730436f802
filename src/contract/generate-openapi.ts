import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createFileRegistry, type FileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { openApiDocument } from "./openapi.ts";
import { printValidateProto } from "./print-validate-proto.ts";

const root = new URL("../../", import.meta.url);
const mostDescriptorBytes = 64 * 1024 * 1024;

/** Everything that a module of buf.yaml declares, with the comments, which are in no generated code. */
export function readDescriptors(module: string): FileRegistry {
  // A module of buf.yaml that is made and not committed: a fresh clone lacks it.
  printValidateProto(fileURLToPath(new URL("gen/proto", root)));
  const descriptors = execFileSync(
    fileURLToPath(new URL("node_modules/.bin/buf", root)),
    ["build", module, "--as-file-descriptor-set", "-o", "-#format=binpb"],
    { cwd: root, maxBuffer: mostDescriptorBytes },
  );
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, descriptors));
}

/** The text of gen/openapi.json, made from the protos as they are now. */
export function renderOpenApi(): string {
  const about = JSON.parse(readFileSync(new URL("package.json", root), "utf8"));
  return `${JSON.stringify(openApiDocument(readDescriptors("proto"), about), undefined, 2)}\n`;
}

if (import.meta.main) writeFileSync(process.argv[2] ?? "gen/openapi.json", renderOpenApi());
