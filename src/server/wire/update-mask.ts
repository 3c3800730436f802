import { type DescMessage, isFieldSet, type Message } from "@bufbuild/protobuf";
import type { FieldMask } from "@bufbuild/protobuf/wkt";

/**
 * Whether an update mentions the field at a dotted path, as in "rotation.enabled". REST says so by the keys of the
 * body; a gRPC client by its mask or, without one, by setting the field.
 */
export function mentions(
  schema: DescMessage,
  request: Message & { readonly updateMask?: FieldMask | undefined },
): (path: string) => boolean {
  const { updateMask } = request;
  if (updateMask !== undefined) {
    const paths = new Set(updateMask.paths);
    return (path) => paths.has(path) || paths.has(path.split(".")[0] as string);
  }
  return (path) => {
    let at: Message | undefined = request;
    let fields = schema.fields;
    for (const name of path.split(".")) {
      const field = fields.find((each) => each.name === name);
      if (field === undefined || at === undefined || !isFieldSet(at, field)) return false;
      if (field.fieldKind === "message") {
        at = (at as unknown as Record<string, Message | undefined>)[field.localName];
        fields = field.message.fields;
      }
    }
    return true;
  };
}
