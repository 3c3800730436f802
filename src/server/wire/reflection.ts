import { type DescExtension, type DescFile, type DescMessage, type DescService, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, type ServiceImpl } from "@connectrpc/connect";
import type { ServerReflection } from "../../../gen/ts/grpc/reflection/v1/reflection_pb.ts";

type Found = DescFile | undefined;

/** grpc.reflection.v1, so that a foreign client can list and call our services without our protos. */
export function reflection(services: readonly DescService[]): ServiceImpl<typeof ServerReflection> {
  const files = new Map<string, DescFile>();
  const symbols = new Map<string, DescFile>();
  const extensions = new Map<string, DescExtension[]>();
  for (const service of services) collect(service.file);

  function collect(file: DescFile): void {
    // protobuf-es leaves ".proto" out of its own names.
    const { name } = file.proto;
    if (files.has(name)) return;
    files.set(name, file);
    for (const service of file.services) {
      symbols.set(service.typeName, file);
      for (const method of service.methods) symbols.set(`${service.typeName}.${method.name}`, file);
    }
    for (const enumeration of file.enums) symbols.set(enumeration.typeName, file);
    for (const message of file.messages) collectMessage(message, file);
    for (const extension of file.extensions) {
      symbols.set(extension.typeName, file);
      const extendee = extension.extendee.typeName;
      extensions.set(extendee, [...(extensions.get(extendee) ?? []), extension]);
    }
    for (const dependency of file.dependencies) collect(dependency);
  }

  function collectMessage(message: DescMessage, file: DescFile): void {
    symbols.set(message.typeName, file);
    for (const nested of message.nestedMessages) collectMessage(nested, file);
    for (const enumeration of message.nestedEnums) symbols.set(enumeration.typeName, file);
  }

  /** The file that was asked for, with its imports behind it. */
  const answerWith = (file: Found) => {
    if (file === undefined) {
      return { case: "errorResponse" as const, value: { errorCode: Code.NotFound, errorMessage: "not found" } };
    }
    const all = new Set<DescFile>();
    const add = (each: DescFile) => {
      if (all.has(each)) return;
      all.add(each);
      each.dependencies.forEach(add);
    };
    add(file);
    const fileDescriptorProto = [...all].map((each) => toBinary(FileDescriptorProtoSchema, each.proto));
    return { case: "fileDescriptorResponse" as const, value: { fileDescriptorProto } };
  };

  return {
    async *serverReflectionInfo(requests) {
      for await (const request of requests) {
        const { messageRequest: asked } = request;
        const head = { validHost: request.host, originalRequest: request };
        if (asked.case === "listServices") {
          const service = services.map(({ typeName }) => ({ name: typeName }));
          yield { ...head, messageResponse: { case: "listServicesResponse", value: { service } } };
        } else if (asked.case === "fileByFilename") {
          yield { ...head, messageResponse: answerWith(files.get(asked.value)) };
        } else if (asked.case === "fileContainingSymbol") {
          yield { ...head, messageResponse: answerWith(symbols.get(asked.value)) };
        } else if (asked.case === "fileContainingExtension") {
          const { containingType, extensionNumber } = asked.value;
          const extension = extensions.get(containingType)?.find(({ number }) => number === extensionNumber);
          yield { ...head, messageResponse: answerWith(extension?.file) };
        } else if (asked.case === "allExtensionNumbersOfType") {
          const extensionNumber = (extensions.get(asked.value) ?? []).map(({ number }) => number);
          const value = { baseTypeName: asked.value, extensionNumber };
          yield { ...head, messageResponse: { case: "allExtensionNumbersResponse", value } };
        }
      }
    },
  };
}
