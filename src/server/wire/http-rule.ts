import {
  type DescField,
  type DescMethod,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  getOption,
  hasOption,
} from "@bufbuild/protobuf";
import { http } from "../../../gen/ts/google/api/annotations_pb.ts";
import type { HttpRule } from "../../../gen/ts/google/api/http_pb.ts";
import { policy } from "../../../gen/ts/holdfast/options/v1/options_pb.ts";

/** A method that REST can serve: the answer is one message, or a line of JSON for each. */
export type RestMethod = DescMethodUnary | DescMethodServerStreaming;

export const isRestMethod = (method: DescMethod): method is RestMethod =>
  method.methodKind === "unary" || method.methodKind === "server_streaming";

/** One REST route of a method, read from its google.api.http option. */
export interface Binding {
  readonly method: RestMethod;
  readonly verb: "GET" | "POST" | "PUT" | "DELETE" | "PATCH";
  /** As it stands in the proto, as in "/api/v1/secrets/{id}". */
  readonly template: string;
  /** The same for the router, as in "/api/v1/secrets/:id". */
  readonly route: string;
  /** Names of the fields that the path holds, in their order. */
  readonly pathFields: readonly string[];
  /** "*" for the whole message, "" for none. */
  readonly body: string;
  /** Name of the field that alone is the answer, "" for the whole message. */
  readonly responseBody: string;
  readonly status: number;
  readonly location: string;
  readonly acceptsForm: boolean;
}

const bindings = new Map<RestMethod, readonly Binding[]>();

/** The routes of a method, none when it has no HTTP rule. Throws for a rule that this server cannot serve. */
export function bindingsOf(method: RestMethod): readonly Binding[] {
  let found = bindings.get(method);
  if (found === undefined) {
    const rule = hasOption(method, http) ? getOption(method, http) : undefined;
    found = rule === undefined ? [] : [rule, ...rule.additionalBindings].map((each) => read(method, each));
    bindings.set(method, found);
  }
  return found;
}

function read(method: RestMethod, rule: HttpRule): Binding {
  const { case: kind, value: template } = rule.pattern;
  if (kind === undefined || kind === "custom") throw new Error(`${method.name}: HTTP rule without a usual verb`);
  const pathFields = [...template.matchAll(/\{([^}]*)\}/g)].map(([, name = ""]) => name);
  for (const name of pathFields) {
    if (fieldNamed(method, name).scalar === undefined) throw new Error(`${method.name}: {${name}} is not a scalar`);
  }
  if (rule.body !== "" && rule.body !== "*") throw new Error(`${method.name}: only body "*" is served`);
  if (rule.responseBody !== "") fieldNamed(method, rule.responseBody, method.output.fields);
  const declared = getOption(method, policy);
  return {
    method,
    verb: kind.toUpperCase() as Binding["verb"],
    template,
    route: template.replaceAll(/\{([^}]*)\}/g, ":$1"),
    pathFields,
    body: rule.body,
    responseBody: rule.responseBody,
    status: declared.status === 0 ? 200 : declared.status,
    location: declared.location,
    acceptsForm: declared.form,
  };
}

function fieldNamed(method: RestMethod, name: string, fields: readonly DescField[] = method.input.fields): DescField {
  const field = fields.find((each) => each.name === name);
  if (field === undefined) throw new Error(`${method.name}: there is no field ${name}`);
  return field;
}
