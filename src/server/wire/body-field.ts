import { type DescField, type DescMessage, getOption, hasOption } from "@bufbuild/protobuf";
import { field as fieldOptions } from "../../../gen/ts/holdfast/options/v1/options_pb.ts";
import type { FieldFault } from "../errors.ts";

const bodyFields = new Map<DescMessage, DescField | undefined>();

/** The field of a request whose message may itself be the body of a REST request (option may_be_body). */
export function bodyFieldOf(schema: DescMessage): DescField | undefined {
  if (!bodyFields.has(schema)) {
    const found = schema.fields.find(
      (field) => hasOption(field, fieldOptions) && getOption(field, fieldOptions).mayBeBody,
    );
    bodyFields.set(schema, found);
  }
  return bodyFields.get(schema);
}

/** The body as the request's message: one that does not hold the field which may be the body is that field's message. */
export function asRequest(schema: DescMessage, body: Record<string, unknown>): Record<string, unknown> {
  const field = bodyFieldOf(schema);
  return field === undefined || Object.hasOwn(body, field.name) ? body : { [field.name]: body };
}

/** Faults as whoever sent the message itself knows them: their paths begin within it, whichever form it came in. */
export function faultsInBody(schema: DescMessage, faults: readonly FieldFault[]): readonly FieldFault[] {
  const prefix = bodyFieldOf(schema)?.name;
  if (prefix === undefined) return faults;
  return faults.map((fault) =>
    fault.field.startsWith(`${prefix}.`) ? { ...fault, field: fault.field.slice(prefix.length + 1) } : fault,
  );
}
