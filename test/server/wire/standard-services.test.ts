import { execFile } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { credentials, Client as GrpcClient, type ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const run = promisify(execFile);
const modules = join(createRequire(import.meta.url).resolve("mocha/package.json"), "../..");
const buf = (...args: string[]) =>
  run(join(modules, ".bin/buf"), ["curl", "--http2-prior-knowledge", ...args], { timeout: 15_000 });

/** A message with one text in field 1, written by hand: what the client here knows comes from no file of ours. */
const text = (value: string) => Buffer.concat([Buffer.from([0x0a, value.length]), Buffer.from(value)]);
const asIs = (bytes: Buffer) => bytes;
let grpc: GrpcClient;
before(() => {
  grpc = new GrpcClient(new URL(server.url).host, credentials.createInsecure());
});
after(() => grpc.close());

const call = (path: string, message: Buffer) =>
  new Promise<Buffer>((resolve, reject) => {
    grpc.makeUnaryRequest(path, asIs, asIs, message, (error, answer) =>
      error === null ? resolve(answer as Buffer) : reject(error),
    );
  });
const refusalOf = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => (error as ServiceError).code,
  );

describe("grpc.health.v1", () => {
  const serving = Buffer.from([0x08, 1]);

  it("says SERVING for the server, for every service of it, and for itself", async () => {
    for (const name of ["", "holdfast.secrets.v1.SecretService", "grpc.health.v1.Health"]) {
      const answer = await call("/grpc.health.v1.Health/Check", text(name));

      expect(answer.equals(serving), name).to.equal(true);
    }
  });

  it("says NOT_FOUND for a service that it does not know", async () => {
    expect(await refusalOf(call("/grpc.health.v1.Health/Check", text("x.Y")))).to.equal(5);
  });

  it("lists every service", async () => {
    const listed = (await call("/grpc.health.v1.Health/List", Buffer.alloc(0))).toString("latin1");

    for (const name of [
      "holdfast.secrets.v1.SecretService",
      "holdfast.auth.v1.TokenService",
      "grpc.health.v1.Health",
    ]) {
      expect(listed).to.include(name);
    }
  });

  it("tells a watcher at once, and goes on watching", async () => {
    const watch = grpc.makeServerStreamRequest("/grpc.health.v1.Health/Watch", asIs, asIs, text(""));
    watch.on("error", () => {});

    const [first] = (await once(watch, "data")) as [Buffer];
    const ended = await Promise.race([once(watch, "end"), new Promise((resolve) => setTimeout(resolve, 100))]);
    watch.cancel();

    expect(first.equals(serving)).to.equal(true);
    expect(ended).to.equal(undefined);
  });

  it("tells a watcher of an unknown service that it is unknown", async () => {
    const watch = grpc.makeServerStreamRequest("/grpc.health.v1.Health/Watch", asIs, asIs, text("x.Y"));
    watch.on("error", () => {});

    const [first] = (await once(watch, "data")) as [Buffer];
    watch.cancel();

    expect([...first]).to.deep.equal([0x08, 3]);
  });

  it("is open to everybody, and counts against no limit", async () => {
    const { status } = await server.anonymous.rest("POST", "/grpc.health.v1.Health/Check", {});

    expect(status).to.equal(200);
  });
});

describe("grpc.reflection.v1", () => {
  it("lists the services to a client that knows nothing of them", async () => {
    const { stdout } = await buf("--list-services", server.url);

    expect(stdout.split("\n")).to.include.members([
      "grpc.health.v1.Health",
      "grpc.reflection.v1.ServerReflection",
      "holdfast.health.v1.HealthService",
      "holdfast.secrets.v1.SecretService",
    ]);
  }).timeout(20_000);

  it("lets such a client call a method over gRPC with the options and messages it was told", async () => {
    const { id } = await server.secret({ value: "told by reflection" });
    const authorization = `Authorization: Bearer ${server.admin.token}`;
    const target = `${server.url}/holdfast.secrets.v1.SecretService/GetSecret`;

    const { stdout } = await buf("--protocol", "grpc", "-H", authorization, "-d", JSON.stringify({ id }), target);

    expect(JSON.parse(stdout)).to.include({ id, value: "told by reflection" });
  }).timeout(20_000);

  it("answers every question it has an answer to, and NOT_FOUND in the stream to others", async () => {
    const path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    const ask = (field: number, value: string) =>
      Buffer.concat([Buffer.from([(field << 3) | 2, value.length]), Buffer.from(value)]);
    const stream = grpc.makeBidiStreamRequest(path, asIs, asIs);
    const answers: string[] = [];
    stream.on("data", (bytes: Buffer) => answers.push(bytes.toString("latin1")));

    stream.write(ask(3, "google/protobuf/struct.proto")); // file_by_filename
    stream.write(ask(4, "holdfast.secrets.v1.SecretService.GetSecret")); // file_containing_symbol
    stream.write(ask(4, "holdfast.secrets.v1.Secret"));
    stream.write(ask(6, "google.protobuf.MethodOptions")); // all_extension_numbers_of_type
    stream.write(ask(4, "no.such.Symbol"));
    stream.write(ask(3, "../../etc/passwd"));
    stream.end();
    await once(stream, "end");

    expect(answers).to.have.length(6);
    expect(answers[0]).to.include("google.protobuf");
    expect(answers[1]).to.include("SecretService").and.include("google/api/annotations.proto");
    expect(answers[2]).to.include("CreateSecretRequest");
    expect(answers[3]).to.include("google.protobuf.MethodOptions");
    for (const refused of answers.slice(4)) expect(refused).to.include("not found");
  });
});
