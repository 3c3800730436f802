import { readdirSync } from "node:fs";
import type { DescMethodUnary, DescService } from "@bufbuild/protobuf";

const generated = new URL("../../gen/ts/holdfast/", import.meta.url);

/** Every service of the contract, found in the generated code: nobody has to list a new one. */
export async function allServices(): Promise<DescService[]> {
  const files = readdirSync(generated, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith("_service_pb.ts"),
  );
  const modules = await Promise.all(files.map((name) => import(new URL(name, generated).href)));
  return modules.flatMap((module) => Object.values(module).filter(isService));
}

export async function allUnaryMethods(): Promise<DescMethodUnary[]> {
  const services = await allServices();
  const methods = services.flatMap((service) => service.methods);
  return methods.filter((method) => method.methodKind === "unary") as DescMethodUnary[];
}

const isService = (value: unknown): value is DescService =>
  typeof value === "object" && value !== null && "kind" in value && value.kind === "service";
