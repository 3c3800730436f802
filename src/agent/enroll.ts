import { AgentLinkService } from "../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import type { GrpcConnection } from "../client/grpc-connection.ts";
import { refusedCredential } from "../client/login-over-grpc.ts";
import type { Credentials } from "./credentials.ts";
import { host } from "./host.ts";

/** Exchanges a one-time token for credentials of the agent's own. Throws CredentialRefused. */
export async function enroll(
  connection: GrpcConnection,
  enrollmentToken: string,
  serverUrls: readonly string[],
): Promise<Credentials> {
  const link = connection.client(AgentLinkService);
  const made = await link.enroll({ enrollmentToken, ...host }).catch(refusedCredential);
  return {
    agent_id: made.agentId,
    client_id: made.clientId,
    client_secret: made.clientSecret,
    server_urls: serverUrls,
  };
}
