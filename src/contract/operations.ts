import type { DescField } from "@bufbuild/protobuf";
import { RateClass } from "../../gen/ts/holdfast/options/v1/options_pb.ts";
import { bodyFieldOf } from "../server/wire/body-field.ts";
import type { Binding, RestMethod } from "../server/wire/http-rule.ts";
import { type MethodPolicy, policyOf } from "../server/wire/policy.ts";
import { commentOf, firstSentence } from "./comments.ts";
import { type HeaderName, type RequestHeaderName, referToHeaders } from "./headers.ts";
import type { RefusalStatus, Refusals } from "./refusals.ts";
import { constraints, isRequired, rulesOf, type Schema } from "./rules.ts";
import { bodyFields, type Schemas } from "./schemas.ts";

const limitHeaders: readonly HeaderName[] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];
const pagingHeaders: readonly HeaderName[] = ["X-Total-Count", "X-Page", "X-Per-Page"];

/** The operation of one REST route. */
export function operationOf(binding: Binding, schemas: Schemas, refusals: Refusals): Schema {
  const { method } = binding;
  const policy = policyOf(method);
  const comment = commentOf(method);
  const parameters = [...parametersOf(binding, schemas), ...requestHeadersOf(binding, policy)];
  const body = requestBodyOf(binding, schemas);
  return {
    tags: [method.parent.name],
    operationId: method.name,
    summary: firstSentence(comment),
    description: comment,
    ...(policy.caller.case === "public" ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: body }),
    responses: responsesOf(binding, policy, schemas, refusals),
    ...extensionsOf(policy),
  };
}

function parametersOf(binding: Binding, schemas: Schemas): Schema[] {
  const { method, pathFields } = binding;
  const inPath = method.input.fields.filter(({ name }) => pathFields.includes(name));
  const inQuery = binding.body === "*" ? [] : bodyFields(method.input, pathFields);
  return [
    ...inPath.map((field) => ({ ...parameterOf(field, "path", schemas), required: true })),
    ...inQuery.map((field) => parameterOf(field, "query", schemas)),
  ];
}

function parameterOf(field: DescField, place: "path" | "query", schemas: Schemas): Schema {
  if (field.message?.typeName.startsWith("holdfast.") === true) {
    throw new Error(`${field.parent.typeName}.${field.name}: a query holds no messages`);
  }
  const { description, "x-aliases": aliases, ...schema } = schemas.field(field, "request");
  return {
    name: field.name,
    in: place,
    ...(isRequired(field) ? { required: true } : {}),
    description,
    schema,
    ...(aliases === undefined ? {} : { "x-aliases": aliases }),
  };
}

function requestHeadersOf({ verb, method }: Binding, policy: MethodPolicy): Schema[] {
  const names: RequestHeaderName[] = [];
  // The outcome is kept for an identity, so there must be one.
  if (verb === "POST" && policy.caller.case !== "public") names.push("IdempotencyKey");
  if (expectsVersion(method)) names.push("IfMatch");
  if (sparesReading(method, policy)) names.push("IfNoneMatch");
  return names.map((name) => ({ $ref: `#/components/parameters/${name}` }));
}

const expectsVersion = ({ input }: RestMethod) => input.fields.some(({ name }) => name === "expected_version");

/** Whether the answer's ETag is what another method of the service expects in If-Match (G-0.14). */
function showsVersion({ output, parent }: RestMethod, { readOnly }: MethodPolicy): boolean {
  return readOnly && parent.methods.some((other) => other.output === output && expectsVersion(other as RestMethod));
}

/** Whether who has the version already is spared a read that would be recorded (G-11.6). */
const sparesReading = (method: RestMethod, policy: MethodPolicy) =>
  showsVersion(method, policy) && policy.action !== "";

/** An omitted body is read as {}, so a body is required only where a field is. */
function requestBodyOf(binding: Binding, schemas: Schemas): Schema | undefined {
  const { input } = binding.method;
  const fields = bodyFields(input, binding.pathFields);
  if (binding.body !== "*" || fields.length === 0) return undefined;
  const whole = schemas.refer(input, "request", binding.pathFields);
  const alone = bodyFieldOf(input)?.message;
  const media = { schema: alone === undefined ? whole : { oneOf: [schemas.refer(alone, "request"), whole] } };
  const form = binding.acceptsForm ? { "application/x-www-form-urlencoded": media } : {};
  const content = { "application/json": media, ...form };
  const required = (alone === undefined ? fields : alone.fields).some(isRequired);
  return required ? { required, content } : { content };
}

function responsesOf(binding: Binding, policy: MethodPolicy, schemas: Schemas, refusals: Refusals): Schema {
  const limited = policy.rate === RateClass.API || policy.rate === RateClass.AUTH;
  const common: HeaderName[] = ["X-Request-Id", ...(limited ? limitHeaders : [])];
  const responses: Record<string, Schema> = { [binding.status]: successOf(binding, policy, schemas, common) };
  if (sparesReading(binding.method, policy)) {
    responses["304"] = { description: "The version of If-None-Match is current.", headers: etagged(common) };
  }
  for (const status of statusesOf(binding, policy)) responses[status] = refusals.refer(status, common, limited);
  // A probe that finds something unhealthy answers its own record.
  if (policy.caller.case === "public" && policy.rate === RateClass.HEALTH) {
    responses["503"] = { ...successOf(binding, policy, schemas, common), description: "A component is unhealthy." };
  }
  return responses;
}

const etagged = (common: readonly HeaderName[]) => referToHeaders([...common, "ETag"]);

function successOf(binding: Binding, policy: MethodPolicy, schemas: Schemas, common: readonly HeaderName[]): Schema {
  const { method, verb } = binding;
  const names = [...common];
  if (showsVersion(method, policy)) names.push("ETag");
  if (isFile(policy)) names.push("Content-Disposition", "ETag");
  if (binding.location !== "") names.push("Location");
  if (isPage(method)) names.push(...pagingHeaders);
  if (verb === "POST" && policy.caller.case !== "public") names.push("Idempotency-Replayed");
  const headers = referToHeaders(names);
  if (binding.status === 204) return { description: "Done; there is no body.", headers };
  return {
    description: firstSentence(commentOf(method.output)),
    headers,
    content: contentOf(binding, policy, schemas),
  };
}

/** Of either envelope of paged lists (G-0.16). */
const isPage = ({ output }: RestMethod) =>
  output.fields.some(({ name }) => name === "pagination") ||
  ["total", "page", "limit"].every((each) => output.fields.some(({ name }) => name === each));

const isFile = ({ mediaTypes }: MethodPolicy) => mediaTypes.length > 0;

function contentOf({ method, responseBody }: Binding, policy: MethodPolicy, schemas: Schemas): Schema {
  const { output } = method;
  if (isFile(policy)) return Object.fromEntries(policy.mediaTypes.map((type) => [type, {}]));
  // One item a line: JSON Schema has no word for that, so the schema is that of a line.
  if (method.methodKind === "server_streaming")
    return { "application/x-ndjson": { schema: schemas.refer(output, "answer") } };
  const alone = output.fields.find(({ name }) => name === responseBody);
  const schema = alone === undefined ? schemas.refer(output, "answer") : schemas.field(alone, "answer");
  return { "application/json": { schema } };
}

/** The refusals that a route can meet, whatever it does. */
function statusesOf(binding: Binding, policy: MethodPolicy): RefusalStatus[] {
  const { method, pathFields } = binding;
  const isOpen = policy.caller.case === "public";
  const isWayIn = policy.rate === RateClass.AUTH;
  const met: Readonly<Record<RefusalStatus, boolean>> = {
    400: binding.body === "*" || bodyFields(method.input, pathFields).length > 0,
    401: !isOpen || isWayIn,
    403: !isOpen || isWayIn,
    404: pathFields.length > 0 || method.input.fields.some(namesSomething),
    409: !policy.readOnly && !isWayIn,
    429: policy.rate === RateClass.API || isWayIn,
    500: true,
    503: true,
  };
  return (Object.keys(met).map(Number) as RefusalStatus[]).filter((status) => met[status]);
}

/** Whether the field, or one within it, is the id of something that may not be there. */
function namesSomething(field: DescField): boolean {
  const within = field.message?.typeName.startsWith("holdfast.") === true ? field.message.fields : [];
  return [field, ...within].some((each) => constraints(rulesOf(each))["format"] === "uuid");
}

function extensionsOf({ caller, targetPermission, action, deniedAction }: MethodPolicy): Schema {
  return {
    ...(caller.case === "permission" ? { "x-permission": caller.value } : {}),
    ...(caller.case === "role" ? { "x-role": caller.value } : {}),
    ...(targetPermission === "" ? {} : { "x-target-permission": targetPermission }),
    ...(action === "" ? {} : { "x-audit-action": action }),
    ...(action === "" && deniedAction !== "" ? { "x-audit-denied-action": deniedAction } : {}),
  };
}
