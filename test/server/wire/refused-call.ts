import { ConnectError } from "@connectrpc/connect";
import { BadRequestSchema } from "../../../gen/ts/google/rpc/error_details_pb.ts";

/** Why a call was refused; throws when it was not. */
export async function refusalOf(call: Promise<unknown>): Promise<ConnectError> {
  const refusal = await call.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error),
  );
  if (refusal === undefined) throw new Error("the call was not refused");
  return refusal;
}

/** The fields at fault, each with what is said of it. */
export const faultsOf = (refusal: ConnectError): string[] =>
  refusal
    .findDetails(BadRequestSchema)
    .flatMap(({ fieldViolations }) => fieldViolations.map(({ field, description }) => `${field} ${description}`));
