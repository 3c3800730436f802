import { Code } from "@connectrpc/connect";
import { expect } from "chai";
import { SecretService } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();

describe("SecretService over gRPC", () => {
  it("does in one life of a secret what REST does, on the same secret", async () => {
    const client = server.admin.grpc(SecretService);
    const metadata = server.admin.metadata();
    const { projectId } = server;

    const created = await client.createSecret({ key: "grpc", value: "one", projectId }, metadata);
    const { id } = created;
    await client.updateSecret({ id, value: "two" }, metadata);
    const rolledBack = await client.rollbackSecret({ id, version: 1 }, metadata);
    const copied = await client.copySecret({ id, key: "grpc-copy" }, metadata);
    const read = await client.getSecret({ id }, metadata);
    const { data: versions } = await client.listSecretVersions({ id }, metadata);
    const archived = await client.archiveSecret({ id }, metadata);
    const restored = await client.restoreSecret({ id, ttlHours: 1 }, metadata);
    const { data: listed, pagination } = await client.listSecrets({ projectId, search: "grpc" }, metadata);
    const { body: overRest } = await server.admin.rest("GET", `/api/v1/secrets/${id}`);
    await client.deleteSecret({ id }, metadata);
    await client.deleteSecretPermanently({ id }, metadata);
    client.close();

    expect(created).to.include({ key: "grpc", name: "grpc", version: 1 });
    expect([created, rolledBack, copied, archived, restored].map(({ value }) => value)).to.deep.equal(
      Array(5).fill(undefined),
    );
    expect(rolledBack).to.include({ version: 3, rolledBackTo: 1 });
    expect(copied.copiedFrom).to.include({ secretId: id, version: 3 });
    expect(read.value).to.equal("one");
    expect(versions.map(({ changeType }) => changeType)).to.deep.equal(["rollback", "manual_update", "initial"]);
    expect([archived.status, restored.status]).to.deep.equal(["archived", "active"]);
    expect(listed.map(({ key }) => key)).to.deep.equal(["grpc", "grpc-copy"]);
    expect(pagination).to.include({ page: 1, perPage: 25, total: 2 });
    expect(overRest).to.include({ value: "one", version: 3 });
    expect((await server.admin.rest("GET", `/api/v1/secrets/${id}`)).status).to.equal(404);
  });

  it("tells the kinds of conflict apart, and answers refusals in gRPC's own codes", async () => {
    const { id, key } = await server.secret();
    const nobody = await server.as("nobody", []);
    const client = server.admin.grpc(SecretService);
    const metadata = server.admin.metadata();
    const { projectId } = server;
    const codeOf = (call: Promise<unknown>) =>
      call.then(
        () => undefined,
        (error: { code: number }) => Code[error.code],
      );

    const codes = {
      duplicate: await codeOf(client.createSecret({ key, value: "v", projectId }, metadata)),
      version: await codeOf(client.updateSecret({ id, value: "v", expectedVersion: 9 }, metadata)),
      state: await codeOf(client.restoreSecret({ id }, metadata)),
      unknown: await codeOf(client.getSecret({ id: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55" }, metadata)),
      malformed: await codeOf(client.getSecret({ id: "x" }, metadata)),
      limit: await codeOf(client.createSecret({ key: "k", value: "v".repeat(65_537), projectId }, metadata)),
      permission: await codeOf(client.getSecret({ id }, nobody.metadata())),
      anonymous: await codeOf(client.getSecret({ id })),
    };
    client.close();

    expect(codes).to.deep.equal({
      duplicate: "AlreadyExists",
      version: "Aborted",
      state: "FailedPrecondition",
      unknown: "NotFound",
      malformed: "NotFound",
      limit: "InvalidArgument",
      permission: "PermissionDenied",
      anonymous: "Unauthenticated",
    });
  });

  it("records a read like one over REST", async () => {
    const { id } = await server.secret();
    const client = server.admin.grpc(SecretService);

    await client.getSecret({ id }, server.admin.metadata());
    client.close();

    const rows = await server.sql("select 1 from audit_event where resource_id = $1 and action = 'secret.read_value'", [
      id,
    ]);
    expect(rows).to.have.length(1);
  });
});
