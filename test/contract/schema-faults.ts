/** The part of JSON Schema that our OpenAPI document uses of answers. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  /** Of a map: what each of its values is. */
  readonly additionalProperties?: Schema;
  readonly enum?: readonly unknown[];
  readonly format?: string;
  readonly [keyword: string]: unknown;
}

/** What is at a reference within a document, as in "#/components/schemas/Secret". */
export function resolve(document: object, reference: string): unknown {
  const found = reference
    .slice(2)
    .split("/")
    .reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], document);
  if (found === undefined) throw new Error(`nothing is at ${reference}`);
  return found;
}

/** Every way in which a value is not what the schema says. A property that the schema does not name is one. */
export function faultsOf(document: object, schema: Schema, value: unknown, path = "answer"): string[] {
  if (schema.$ref !== undefined) return faultsOf(document, resolve(document, schema.$ref) as Schema, value, path);
  if (schema.anyOf !== undefined) {
    const tries = schema.anyOf.map((each) => faultsOf(document, each, value, path));
    return tries.find((faults) => faults.length === 0) ?? tries.flat();
  }
  const types = schema.type === undefined ? undefined : [schema.type].flat();
  if (types !== undefined && !types.some((type) => isOfType(type, value))) {
    return [`${path} is ${JSON.stringify(value)}, not ${types.join(" or ")}`];
  }
  if (schema.enum !== undefined && !schema.enum.includes(value)) return [`${path} is none of the allowed values`];
  if (schema.format === "date-time" && typeof value === "string" && !isTime(value)) return [`${path} is not a time`];
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => faultsOf(document, schema.items ?? {}, item, `${path}[${index}]`));
  }
  return typeof value === "object" && value !== null ? objectFaults(document, schema, value, path) : [];
}

function objectFaults(document: object, schema: Schema, value: object, path: string): string[] {
  const { properties, additionalProperties, required = [] } = schema;
  const missing = required.filter((name) => !(name in value)).map((name) => `${path}.${name} is missing`);
  if (properties === undefined && additionalProperties === undefined) return missing;
  const inner = Object.entries(value).flatMap(([name, each]) => {
    const property = properties?.[name] ?? additionalProperties;
    return property === undefined
      ? [`${path}.${name} is not in the document`]
      : faultsOf(document, property, each, `${path}.${name}`);
  });
  return [...missing, ...inner];
}

function isOfType(type: string, value: unknown): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

const isTime = (text: string) => /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/.test(text);
