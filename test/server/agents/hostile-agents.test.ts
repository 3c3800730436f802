import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { expect } from "chai";
import { AgentService } from "../../../gen/ts/holdfast/agents/v1/agent_service_pb.ts";
import { DiscoveredKeytabService } from "../../../gen/ts/holdfast/discovery/v1/discovered_keytab_service_pb.ts";
import { CipherPolicyService } from "../../../gen/ts/holdfast/keytabs/v1/cipher_policy_service_pb.ts";
import { KeytabService } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import { foundKeytab, Host } from "../../harness/host.ts";
import { newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { recordOf } from "../discovery/files.ts";
import { refusalOf } from "./refusal.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const hosts: Host[] = [];
afterEach(() => hosts.splice(0).forEach((host) => host.close()));

async function newHost(): Promise<Host> {
  const host = await Host.enroll(server);
  hosts.push(host);
  return host;
}

const giveRoles = (host: Host, roles: readonly string[]) =>
  server.admin.rest("PUT", `/api/v1/machine-identities/${host.id}`, { roles });

describe("An agent that loses the role agent", () => {
  it("is told nothing more over the streams that it has open", async () => {
    const host = await newHost();
    const watch = host.watch();
    await watch.next();

    expect((await giveRoles(host, ["viewer"])).status).to.equal(200);

    expect(await refusalOf(watch.next())).to.equal("PERMISSION_DENIED: permission agent:report is required");
  });

  it("is told nothing more either when it has the role at a project only", async () => {
    const host = await newHost();
    const watch = host.watch();
    await watch.next();

    const project_roles = [{ project_id: server.projectId, role: "agent" }];
    await server.admin.rest("PUT", `/api/v1/machine-identities/${host.id}`, { roles: [], project_roles });

    expect(await refusalOf(watch.next())).to.equal("PERMISSION_DENIED: permission agent:report is required");
  });

  it("goes on with another role that may report", async () => {
    const permissions = ["agent:report"];
    await server.admin.rest("POST", "/api/v1/roles", { name: "reporter", permissions });
    const host = await newHost();
    await host.report([foundKeytab("/etc/a", newKeytab())]);
    const { id } = await recordOf(server.admin, host);
    const watch = host.watch();
    await watch.next();

    expect((await giveRoles(host, ["reporter"])).status).to.equal(200);
    const importing = server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {});
    const command = await watch.next();
    const { kind } = command ?? {};
    if (kind?.case === "uploadKeytab") await host.upload(kind.value.requestId, { case: "failure", value: "gone" });

    expect(kind?.case).to.equal("uploadKeytab");
    expect((await importing).status).to.equal(409);
  });
});

describe("What an agent may not do", () => {
  const services: readonly DescService[] = [KeytabService, CipherPolicyService, DiscoveredKeytabService, AgentService];
  const id = "01a1f92a-756c-7eff-8b1d-5ed8ae7800e3";

  async function refusedFor(host: Host, service: DescService, { name, input }: DescMethod): Promise<unknown> {
    const request = input.fields.some((field) => field.name === "id") ? { id } : {};
    const { body } = await host.client.rest("POST", `/${service.typeName}/${name}`, request);
    return body.details?.[0]?.debug?.reason;
  }

  for (const service of services) {
    for (const method of service.methods.filter(({ methodKind }) => methodKind === "unary")) {
      it(`is ${service.name}.${method.name}`, async () => {
        expect(await refusedFor(await newHost(), service, method)).to.equal("PERMISSION_DENIED");
      });
    }
  }

  it("is the download of a keytab", async () => {
    const host = await newHost();

    const { status } = await host.client.rest("GET", `/api/v1/keytabs/${id}/download`);

    expect(status).to.equal(403);
  });
});
