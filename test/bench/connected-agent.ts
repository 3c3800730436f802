import { AgentLinkService } from "../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import { KeytabReportService } from "../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import type { GrpcClient } from "../../src/client/grpc-client.ts";
import { GrpcConnection } from "../../src/client/grpc-connection.ts";
import { type GrpcEndpoint, grpcEndpoint } from "../../src/client/grpc-endpoint.ts";
import { loginOverGrpc } from "../../src/client/login-over-grpc.ts";
import type { Credentials } from "./load.ts";

/** An agent that is logged in, on a connection of its own, by the code that agents use. */
export class ConnectedAgent {
  readonly link: GrpcClient<typeof AgentLinkService>;
  readonly reports: GrpcClient<typeof KeytabReportService>;
  readonly #connection: GrpcConnection;

  private constructor(connection: GrpcConnection, token: string) {
    this.#connection = connection;
    this.link = connection.client(AgentLinkService, async () => token);
    this.reports = connection.client(KeytabReportService, async () => token);
  }

  static async open(port: number, { clientId, clientSecret }: Credentials): Promise<ConnectedAgent> {
    const connection = new GrpcConnection(grpcEndpoint(`http://127.0.0.1:${port}`) as GrpcEndpoint, "holdfast-bench");
    const { token } = await loginOverGrpc(connection, clientId, clientSecret);
    return new ConnectedAgent(connection, token);
  }

  close(): void {
    this.#connection.close();
  }
}
