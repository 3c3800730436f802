import { type ServiceError, status } from "@grpc/grpc-js";
import { TokenService } from "../../gen/ts/holdfast/auth/v1/token_service_pb.ts";
import type { GrpcConnection } from "./grpc-connection.ts";
import { CredentialRefused } from "./stay-connected.ts";
import { type Token, tokenOf } from "./token.ts";

/** Exchanges the credentials of a machine identity for a token. Throws CredentialRefused. */
export async function loginOverGrpc(
  connection: GrpcConnection,
  clientId: string,
  clientSecret: string,
): Promise<Token> {
  const login = connection.client(TokenService).loginUniversal({ clientId, clientSecret });
  return tokenOf(await login.catch(refusedCredential));
}

/** Throws what a call failed with; CredentialRefused when that is because of who calls. */
export function refusedCredential(error: ServiceError): never {
  throw error.code === status.UNAUTHENTICATED ? new CredentialRefused(error.details, { cause: error }) : error;
}
