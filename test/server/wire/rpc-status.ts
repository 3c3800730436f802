import { fromBinary } from "@bufbuild/protobuf";
import { AnySchema, anyUnpack } from "@bufbuild/protobuf/wkt";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/ts/google/rpc/error_details_pb.ts";

/** What an error says besides its code, in one form for all protocols. */
export interface Details {
  readonly reason?: string;
  readonly domain?: string;
  readonly metadata?: Record<string, string>;
  readonly faults: { field: string; message: string }[];
  readonly retryAfterSeconds?: number;
}

/** The details of a `google.rpc.Status` as it comes in grpc-status-details-bin, decoded by hand: field 3 is a list of Any. */
export function detailsOf(status: Uint8Array): Details {
  const details: Record<string, unknown> & Details = { faults: [] };
  for (const bytes of fieldsOf(status, 3)) {
    const any = fromBinary(AnySchema, bytes);
    const info = anyUnpack(any, ErrorInfoSchema);
    const badRequest = anyUnpack(any, BadRequestSchema);
    const retry = anyUnpack(any, RetryInfoSchema);
    if (info !== undefined) {
      Object.assign(details, { reason: info.reason, domain: info.domain, metadata: info.metadata });
    }
    for (const { field, description } of badRequest?.fieldViolations ?? []) {
      details.faults.push({ field, message: description });
    }
    if (retry?.retryDelay !== undefined)
      Object.assign(details, { retryAfterSeconds: Number(retry.retryDelay.seconds) });
  }
  return details;
}

/** The bytes of every field numbered `wanted` that has a length (protobuf encoding, wire type 2). */
function fieldsOf(message: Uint8Array, wanted: number): Uint8Array[] {
  const found: Uint8Array[] = [];
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = message[at++] as number;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.length) {
    const tag = varint();
    if ((tag & 7) === 0) varint();
    else {
      const length = varint();
      if (tag >> 3 === wanted) found.push(message.subarray(at, at + length));
      at += length;
    }
  }
  return found;
}
