import { readFileSync } from "node:fs";
import type { Answer } from "../harness/client.ts";
import { faultsOf, resolve, type Schema } from "./schema-faults.ts";

export interface Parameter {
  readonly $ref?: string;
  readonly name?: string;
  readonly required?: boolean;
  readonly schema?: Schema;
}

export interface Response {
  readonly $ref?: string;
  readonly headers?: Readonly<Record<string, Schema>>;
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>;
}

export interface Operation {
  readonly operationId: string;
  readonly security?: readonly unknown[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Readonly<Record<string, unknown>> };
  readonly responses: Readonly<Record<string, Response>>;
  readonly [extension: `x-${string}`]: unknown;
}

export interface OpenApi {
  readonly info: { readonly version: string };
  readonly tags: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly headers: Readonly<Record<string, unknown>>;
    readonly schemas: Readonly<Record<string, Schema>>;
  };
}

/** The document as it is in the repository. */
export const file = readFileSync(new URL("../../gen/openapi.json", import.meta.url), "utf8");
export const document: OpenApi = JSON.parse(file);
export const operations = new Map(
  Object.values(document.paths).flatMap((path) =>
    Object.values(path).map((operation) => [operation.operationId, operation] as const),
  ),
);

export function operation(id: string): Operation {
  const found = operations.get(id);
  if (found === undefined) throw new Error(`the document has no ${id}`);
  return found;
}

export const schema = (name: string) => resolve(document, `#/components/schemas/${name}`) as Schema;

/** Where the answer, its body and its headers, is not what the document says. */
export function differences(id: string, { status, headers, body }: Answer): string[] {
  const declared = operation(id).responses[status];
  if (declared === undefined) return [`${id} does not declare ${status}`];
  const response = declared.$ref === undefined ? declared : (resolve(document, declared.$ref) as Response);
  const undeclared = Object.keys(document.components.headers).filter(
    (name) => headers.has(name) && response.headers?.[name] === undefined,
  );
  const [type = ""] = (headers.get("content-type") ?? "").split(";");
  if (response.content === undefined ? body !== "" : response.content[type] === undefined)
    return [`the body is ${type}`];
  const { schema: declaredBody = {} } = response.content?.[type] ?? {};
  const faults = faultsOf(document, declaredBody, body);
  return [...undeclared.map((name) => `${name} is not declared`), ...faults];
}
