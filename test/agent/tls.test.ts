import { expect } from "chai";
import { urlOf, useServer } from "../harness/server.ts";
import { makeCertificate } from "../server/wire/certificate.ts";
import { newEnrollmentToken, useAgentHost } from "./agent-host.ts";

const certificate = makeCertificate();
after(() => certificate?.remove());

const describeWithOpenssl = certificate === undefined ? describe.skip : describe;
if (certificate === undefined) console.log("agents over TLS are not tested: this machine has no openssl");

describeWithOpenssl("An agent over TLS", function () {
  // Each test starts a program.
  this.timeout(120_000);
  const server = useServer({ KEYTAB_ENABLED: "true" });
  const host = useAgentHost();
  const { certFile = "", keyFile = "" } = certificate ?? {};
  let url: string;
  before(async () => {
    const replica = await server.startReplica({ TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile });
    url = urlOf(replica).replace("http:", "https:");
  });

  it("trusts a private certificate authority that it is told of", async () => {
    const agent = await host().startEnrolled(server, { SERVER_URL: url, CA_FILE: certFile });

    expect(await agent.said("connected")).to.include({ server: url });
  });

  it("gives its token to no server that it has no reason to trust", async () => {
    const token = await newEnrollmentToken(server);

    const agent = host().start({ SERVER_URL: url, ENROLLMENT_TOKEN: token });

    expect((await agent.said("not connected"))["reason"]).to.match(/self.signed certificate/);
    await agent.end("SIGTERM");
    await host().startEnrolled(server, { ENROLLMENT_TOKEN: token });
  });
});
