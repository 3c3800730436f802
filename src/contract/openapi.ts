import type { DescService, FileRegistry } from "@bufbuild/protobuf";
import { bindingsOf, isRestMethod } from "../server/wire/http-rule.ts";
import { sessionCookie } from "../server/wire/session-cookie.ts";
import { commentOf } from "./comments.ts";
import { headers, requestHeaders } from "./headers.ts";
import { operationOf } from "./operations.ts";
import { errorSchema, Refusals } from "./refusals.ts";
import type { Schema } from "./rules.ts";
import { Schemas } from "./schemas.ts";

/** What package.json says. */
export interface Package {
  readonly version: string;
  readonly description: string;
  readonly license: string;
}

const securitySchemes = {
  bearerAuth: { type: "http", scheme: "bearer", description: "An access token (JWT) or an API token." },
  session: {
    type: "apiKey",
    in: "cookie",
    name: sessionCookie,
    description:
      "A browser's session. A request that may change something also carries the session's token in X-CSRF-Token.",
  },
};

/** Renders the OpenAPI 3.1 document of every method that has an HTTP rule; the registry must hold the comments. */
export function openApiDocument(registry: FileRegistry, { version, description, license }: Package): Schema {
  const services = servicesOf(registry);
  const bindings = services.flatMap(({ methods }) => methods.filter(isRestMethod).flatMap(bindingsOf));
  const schemas = new Schemas(bindings.map(({ method }) => method.output));
  const refusals = new Refusals();
  const paths: Record<string, Record<string, Schema>> = {};
  const operationIds = new Set<string>();
  for (const binding of bindings) {
    const { name } = binding.method;
    if (operationIds.has(name)) throw new Error(`two routes are called ${name}`);
    operationIds.add(name);
    const path = (paths[binding.template] ??= {});
    path[binding.verb.toLowerCase()] = operationOf(binding, schemas, refusals);
  }
  return {
    openapi: "3.1.0",
    info: { title: "Holdfast", version, description, license: { name: license, identifier: license } },
    servers: [{ url: "/" }],
    security: [{ bearerAuth: [] }, { session: [] }],
    tags: services
      .filter((service) => bindings.some(({ method }) => method.parent === service))
      .map((service) => ({ name: service.name, description: commentOf(service) })),
    paths,
    components: {
      securitySchemes,
      parameters: requestHeaders,
      headers,
      responses: refusals.components,
      schemas: { Error: errorSchema, ...schemas.components },
    },
  };
}

/** Our services in the order of their names, so that the document does not depend on the order of files. */
function servicesOf(registry: FileRegistry): DescService[] {
  return [...registry]
    .filter((each) => each.kind === "service")
    .filter(({ typeName }) => typeName.startsWith("holdfast."))
    .sort((one, other) => (one.typeName < other.typeName ? -1 : 1));
}
