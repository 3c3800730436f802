import { monitorRound } from "../harness/failover.ts";
import { TestGateway } from "../harness/gateway.ts";
import type { TestServer } from "../harness/server.ts";
import { gatewaySecret } from "../server/gateways/rotations.ts";

/** A primary and a DR gateway of an environment, by names that begin with that of the environment. */
export const registerPair = async (server: TestServer, environment: string) => ({
  primary: await TestGateway.register(server, { environment, name: `${environment}-primary` }),
  dr: await TestGateway.register(server, { environment, name: `${environment}-dr`, role: "dr-standby" }),
});

/** A secret that gateways of the environment rotate, which its DR gateway has found to work or not; its id. */
export async function checkedSecret(server: TestServer, dr: TestGateway, error?: string): Promise<string> {
  const { id } = await gatewaySecret(server, dr.environment);
  await monitorRound(server);
  const check = await dr.claim();
  if (check === undefined) throw new Error("no check is due");
  await dr.complete(
    check,
    error === undefined ? { case: "succeeded", value: {} } : { case: "failed", value: { message: error } },
  );
  return id;
}
