import type { ServiceError } from "@grpc/grpc-js";
import { detailsOf } from "../wire/rpc-status.ts";

/** How a gRPC call was refused: our code and the message; "ok" when it was not. */
export async function refusalOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "ok";
  } catch (error) {
    const { metadata, details } = error as ServiceError;
    const [status] = metadata.get("grpc-status-details-bin");
    if (status === undefined) throw error;
    // Of a stream's refusal more is encoded than grpc-js decodes.
    return `${detailsOf(status as Buffer).reason}: ${decodeURIComponent(details)}`;
  }
}
