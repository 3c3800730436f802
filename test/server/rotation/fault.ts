import type { ServiceError } from "@grpc/grpc-js";
import { detailsOf } from "../wire/rpc-status.ts";

/** Why a gRPC call was refused, and for which fields, as in "VALIDATION_ERROR provider"; "ok" when it was not. */
export async function faultOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "ok";
  } catch (error) {
    const [status] = (error as ServiceError).metadata.get("grpc-status-details-bin");
    const { reason, faults } = detailsOf(status as Buffer);
    return `${reason} ${faults.map(({ field }) => field).join()}`;
  }
}
