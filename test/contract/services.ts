import { readdirSync } from "node:fs";
import type { DescService } from "@bufbuild/protobuf";
import { isRestMethod, type RestMethod } from "../../src/server/wire/http-rule.ts";

const generated = new URL("../../gen/ts/holdfast/", import.meta.url);

/** Every service of the contract, found in the generated code: nobody has to list a new one. */
export async function allServices(): Promise<DescService[]> {
  const files = readdirSync(generated, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith("_service_pb.ts"),
  );
  const modules = await Promise.all(files.map((name) => import(new URL(name, generated).href)));
  return modules.flatMap((module) => Object.values(module).filter(isService));
}

/** Every method that takes one message. */
export async function allMethods(): Promise<RestMethod[]> {
  const services = await allServices();
  return services.flatMap((service) => service.methods).filter(isRestMethod);
}

const isService = (value: unknown): value is DescService =>
  typeof value === "object" && value !== null && "kind" in value && value.kind === "service";
