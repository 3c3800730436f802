import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import {
  compressionGzip,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import type { ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/ts/google/rpc/error_details_pb.ts";
import { TokenService } from "../../../gen/ts/holdfast/auth/v1/token_service_pb.ts";
import { SecretService } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { errorCodes } from "../../../src/server/errors.ts";
import { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import { sendHttp2 } from "./raw-http.ts";
import { type Details, detailsOf } from "./rpc-status.ts";

const server = useServer();
let viewer: Client;
let taken: { id: string; key: string };
before(async () => {
  viewer = await server.as("viewer", ["viewer"]);
  taken = await server.secret();
});

/** A refusal as a caller sees it, whatever the protocol. */
interface Seen extends Details {
  readonly code: Code;
  readonly message: string;
  readonly requestId: string | undefined;
}

type Call = (client: Client, method: "getSecret" | "createSecret" | "updateSecret", request: object) => Promise<Seen>;

/** Calls through a Connect client and tells what it was refused with. */
function over(transport: (url: string, headers: Record<string, string>) => Transport): Call {
  return async (client, method, request) => {
    const headers: Record<string, string> =
      client.token === undefined ? {} : { authorization: `Bearer ${client.token}` };
    const service = createClient(SecretService, transport(client.url, headers));
    const error = await (service[method](request as never, { headers }) as Promise<unknown>).then(
      () => undefined,
      (reason: unknown) => ConnectError.from(reason),
    );
    if (error === undefined) throw new Error("was not refused");
    const [info] = error.findDetails(ErrorInfoSchema);
    const [badRequest] = error.findDetails(BadRequestSchema);
    const [retry] = error.findDetails(RetryInfoSchema);
    return {
      code: error.code,
      message: error.rawMessage,
      requestId: error.metadata.get("x-request-id") ?? undefined,
      reason: info?.reason ?? "",
      domain: info?.domain ?? "",
      metadata: info?.metadata ?? {},
      faults: (badRequest?.fieldViolations ?? []).map(({ field, description }) => ({ field, message: description })),
      ...(retry === undefined ? {} : { retryAfterSeconds: Number(retry.retryDelay?.seconds) }),
    };
  };
}

const overGrpc: Call = async (client, method, request) => {
  const service = client.grpc(SecretService);
  try {
    await service[method](request, client.metadata());
    throw new Error("was not refused");
  } catch (error) {
    const { code, details, metadata } = error as ServiceError;
    const [requestId] = metadata.get("x-request-id");
    return {
      code: code as unknown as Code,
      message: details,
      requestId: requestId as string,
      ...detailsOf(metadata.get("grpc-status-details-bin")[0] as Buffer),
    };
  } finally {
    service.close();
  }
};

const doors: Record<string, Call> = {
  gRPC: overGrpc,
  "gRPC with compressed messages": over((baseUrl) =>
    createGrpcTransport({ baseUrl, sendCompression: compressionGzip, compressMinBytes: 0 }),
  ),
  "gRPC-Web": over((baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" })),
  "gRPC-Web with compressed messages over HTTP/2": over((baseUrl) =>
    createGrpcWebTransport({ baseUrl, httpVersion: "2", sendCompression: compressionGzip, compressMinBytes: 0 }),
  ),
  "Connect with JSON": over((baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1" })),
  "Connect with JSON over HTTP/2": over((baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2" })),
  "Connect with binary messages": over((baseUrl) =>
    createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: true }),
  ),
  "Connect with compressed messages": over((baseUrl) =>
    createConnectTransport({ baseUrl, httpVersion: "1.1", sendCompression: compressionGzip, compressMinBytes: 0 }),
  ),
};

const unknown = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";

interface Refused {
  readonly by: () => Client;
  readonly rest: () => readonly [method: string, path: string, body?: object];
  readonly rpc: () => readonly [method: Parameters<Call>[1], request: object];
  readonly code: keyof typeof errorCodes;
  readonly grpc: Code;
}

const refusals: Record<string, Refused> = {
  "no token": {
    by: () => server.anonymous,
    rest: () => ["GET", `/api/v1/secrets/${taken.id}`],
    rpc: () => ["getSecret", { id: taken.id }],
    code: "AUTH_REQUIRED",
    grpc: Code.Unauthenticated,
  },
  "a token that is none": {
    by: () => new Client(server.url, "x.y.z"),
    rest: () => ["GET", `/api/v1/secrets/${taken.id}`],
    rpc: () => ["getSecret", { id: taken.id }],
    code: "AUTH_INVALID",
    grpc: Code.Unauthenticated,
  },
  "a missing permission": {
    by: () => viewer,
    rest: () => ["POST", "/api/v1/secrets", { key: "k", value: "v", project_id: server.projectId }],
    rpc: () => ["createSecret", { key: "k", value: "v", projectId: server.projectId }],
    code: "PERMISSION_DENIED",
    grpc: Code.PermissionDenied,
  },
  "faults of several fields": {
    by: () => server.admin,
    rest: () => ["POST", "/api/v1/secrets", { key: "", tags: ["a", ""], project_id: "x" }],
    rpc: () => ["createSecret", { key: "", tags: ["a", ""], projectId: "x" }],
    code: "VALIDATION_ERROR",
    grpc: Code.InvalidArgument,
  },
  "an unknown id": {
    by: () => server.admin,
    rest: () => ["GET", `/api/v1/secrets/${unknown}`],
    rpc: () => ["getSecret", { id: unknown }],
    code: "RESOURCE_NOT_FOUND",
    grpc: Code.NotFound,
  },
  "an unknown project": {
    by: () => server.admin,
    rest: () => ["POST", "/api/v1/secrets", { key: "k", value: "v", project_id: unknown }],
    rpc: () => ["createSecret", { key: "k", value: "v", projectId: unknown }],
    code: "RESOURCE_NOT_FOUND",
    grpc: Code.NotFound,
  },
  "a duplicate": {
    by: () => server.admin,
    rest: () => ["POST", "/api/v1/secrets", { key: taken.key, value: "v", project_id: server.projectId }],
    rpc: () => ["createSecret", { key: taken.key, value: "v", projectId: server.projectId }],
    code: "RESOURCE_CONFLICT",
    grpc: Code.AlreadyExists,
  },
  "a version conflict": {
    by: () => server.admin,
    rest: () => ["PUT", `/api/v1/secrets/${taken.id}`, { value: "v", expected_version: 9 }],
    rpc: () => ["updateSecret", { id: taken.id, value: "v", expectedVersion: 9 }],
    code: "RESOURCE_CONFLICT",
    grpc: Code.Aborted,
  },
};

describe("The same refusal", () => {
  for (const [why, { by, rest, rpc, code, grpc }] of Object.entries(refusals)) {
    it(`for ${why} is ${code} over REST and every RPC protocol, with the same message and faults`, async () => {
      const { status, body, headers } = await by().rest(...rest());
      expect(status).to.equal(errorCodes[code].status);
      expect(body.error.code).to.equal(code);
      expect(body.error.request_id).to.equal(headers.get("x-request-id"));

      for (const [door, call] of Object.entries(doors)) {
        const seen = await call(by(), ...rpc());

        expect(seen.code, door).to.equal(grpc);
        expect(seen.message, door).to.equal(body.error.message);
        expect(seen.faults, door).to.deep.equal(body.error.details);
        expect(seen.reason, door).to.equal(code);
        expect(seen.domain, door).to.equal("holdfast");
        expect(seen.metadata?.["request_id"], door).to.match(/^[0-9a-f-]{36}$/);
        expect(seen.requestId, door).to.equal(seen.metadata?.["request_id"]);
      }
    });
  }

  it("of the wrong state is FAILED_PRECONDITION, which REST knows as 409", async () => {
    const { id } = await server.secret();
    const grpc = server.admin.grpc(SecretService);

    const { status } = await server.admin.rest("POST", `/api/v1/secrets/${id}/restore`);
    const refused = await grpc.restoreSecret({ id }, server.admin.metadata()).catch((error: ServiceError) => error);
    grpc.close();

    expect(status).to.equal(409);
    expect((refused as ServiceError).code).to.equal(Code.FailedPrecondition);
  });
});

describe("WWW-Authenticate (G-1.2)", () => {
  const cases: [why: string, headers: Record<string, string>, code: string, challenge: string][] = [
    ["without a token", {}, "AUTH_REQUIRED", 'Bearer realm="holdfast"'],
    ["with an empty token", { authorization: "Bearer " }, "AUTH_REQUIRED", 'Bearer realm="holdfast"'],
    [
      "with another scheme",
      { authorization: "Basic YTpi" },
      "AUTH_INVALID",
      'Bearer realm="holdfast", error="invalid_token"',
    ],
    [
      "with a bad token",
      { authorization: "Bearer x" },
      "AUTH_INVALID",
      'Bearer realm="holdfast", error="invalid_token"',
    ],
  ];
  for (const [why, headers, code, challenge] of cases) {
    it(`${why} says ${challenge}`, async () => {
      const answer = await server.anonymous.rest("GET", "/api/v1/secrets", undefined, headers);

      expect([answer.status, answer.body.error.code]).to.deep.equal([401, code]);
      expect(answer.headers.get("www-authenticate")).to.equal(challenge);
    });
  }

  it("with a token past its end says invalid_token, and the code is AUTH_EXPIRED", async () => {
    const given = { name: "short", access_token_ttl_seconds: 1 };
    const { body: identity } = await server.admin.rest("POST", "/api/v1/machine-identities", given);
    const path = `/api/v1/machine-identities/${identity.id}/client-secrets`;
    const { body: secret } = await server.admin.rest("POST", path, {});
    const short = await server.login(identity.client_id, secret.client_secret);
    const { exp } = JSON.parse(Buffer.from((short.token ?? "").split(".")[1] ?? "", "base64url").toString());
    await sleep(Math.max(0, exp * 1000 - Date.now()) + 5);

    const answer = await short.rest("GET", "/api/v1/secrets");

    expect([answer.status, answer.body.error.code]).to.deep.equal([401, "AUTH_EXPIRED"]);
    expect(answer.headers.get("www-authenticate")).to.equal('Bearer realm="holdfast", error="invalid_token"');
  });

  it("is on a wrong login too", async () => {
    const answer = await server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", {
      client_id: "x",
      client_secret: "y",
    });

    expect([answer.status, answer.body.error.code]).to.deep.equal([401, "AUTH_INVALID"]);
    expect(answer.headers.get("www-authenticate")).to.include("invalid_token");
  });
});

describe("What is no call of ours over gRPC", () => {
  const path = "/holdfast.secrets.v1.SecretService/GetSecret";
  const authorization = () => `Bearer ${server.admin.token}`;
  const grpc = (bytes: Buffer, more: Record<string, string> = {}) =>
    sendHttp2(
      server.url,
      { ":method": "POST", ":path": path, "content-type": "application/grpc", authorization: authorization(), ...more },
      bytes,
    );
  const framed = (message: Buffer, flags = 0) => {
    const head = Buffer.from([flags, 0, 0, 0, 0]);
    head.writeUInt32BE(message.length, 1);
    return Buffer.concat([head, message]);
  };
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
  const rows: Record<string, () => [Buffer, Record<string, string>, Code]> = {
    "an unknown method": () => [framed(Buffer.alloc(0)), { ":path": `${path}s` }, Code.Unimplemented],
    "an unknown service": () => [framed(Buffer.alloc(0)), { ":path": "/x.Y/Z" }, Code.Unimplemented],
    "an empty body": () => [Buffer.alloc(0), {}, Code.InvalidArgument],
    "half a frame": () => [Buffer.from([0, 0]), {}, Code.InvalidArgument],
    "a length that is too long": () => [Buffer.from([0, 0, 0, 1, 0, 1]), {}, Code.InvalidArgument],
    "two messages": () => [Buffer.concat([framed(Buffer.alloc(0)), framed(Buffer.alloc(0))]), {}, Code.InvalidArgument],
    "bytes that are no message": () => [framed(Buffer.from([0xff, 0xff])), {}, Code.InvalidArgument],
    "text that is not UTF-8": () => [framed(Buffer.from([0x0a, 2, 0xff, 0xfe])), {}, Code.InvalidArgument],
    "unknown flags": () => [framed(Buffer.alloc(0), 2), {}, Code.InvalidArgument],
    "a compressed message that does not say how": () => [framed(gzipSync(""), 1), {}, Code.InvalidArgument],
    "a compressed message that is not": () => [
      framed(Buffer.from("x"), 1),
      { "grpc-encoding": "gzip" },
      Code.InvalidArgument,
    ],
    "an unknown compression": () => [framed(Buffer.from("x"), 1), { "grpc-encoding": "snappy" }, Code.Unimplemented],
    "a message that grows beyond the limit": () => [
      framed(bomb, 1),
      { "grpc-encoding": "gzip" },
      Code.ResourceExhausted,
    ],
    "a message beyond the limit": () => [framed(Buffer.alloc(5 * 1024 * 1024)), {}, Code.ResourceExhausted],
    "a deadline that is none": () => [framed(Buffer.alloc(0)), { "grpc-timeout": "soon" }, Code.InvalidArgument],
  };
  for (const [what, row] of Object.entries(rows)) {
    it(`is refused with its status and details: ${what}`, async () => {
      const [bytes, headers, code] = row();

      const answer = await grpc(bytes, headers);

      expect(answer.status).to.equal(200);
      expect(answer.headers["content-type"]).to.equal("application/grpc");
      expect(Number(answer.headers["grpc-status"])).to.equal(code);
      const details = detailsOf(Buffer.from(answer.headers["grpc-status-details-bin"] ?? "", "base64"));
      expect(details.domain).to.equal("holdfast");
      expect(details.metadata?.["request_id"]).to.equal(answer.headers["x-request-id"]);
    });
  }

  it("is told to nobody who does not say who they are", async () => {
    for (const type of ["application/grpc", "application/grpc-web", "application/proto", "application/json"]) {
      const headers = { ":method": "POST", ":path": path, "content-type": type };

      const answer = await sendHttp2(server.url, headers, Buffer.from([0xff, 0xff]));

      const said =
        answer.headers["grpc-status"] ?? /grpc-status: (\d+)/.exec(answer.body)?.[1] ?? String(answer.status);
      expect(said, type).to.be.oneOf([String(Code.Unauthenticated), "401"]);
    }
  });
});

describe("What is no message of Connect", () => {
  const call = (body: Buffer | string, type = "application/json", more: Record<string, string> = {}) =>
    sendHttp2(
      server.url,
      {
        ":method": "POST",
        ":path": "/holdfast.secrets.v1.SecretService/CreateSecret",
        "content-type": type,
        authorization: `Bearer ${server.admin.token}`,
        ...more,
      },
      body,
    );

  const rows: Record<string, [string | Buffer, string, Record<string, string>?]> = {
    "JSON that is none": ['{"value":"hunter2" x', "application/json"],
    "a value of the wrong type": ['{"value":{"hunter2":1}}', "application/json"],
    "a key twice": ['{"key":"hunter2","key":"b"}', "application/json"],
    "bytes that are no message": [Buffer.from("\xffhunter2", "latin1"), "application/proto"],
    "a compressed message that is not": ["hunter2", "application/json", { "content-encoding": "gzip" }],
    "a deadline that is none": ["{}", "application/json", { "connect-timeout-ms": "hunter2" }],
  };
  for (const [what, [body, type, headers]] of Object.entries(rows)) {
    it(`is refused as invalid_argument and repeats nothing of it: ${what}`, async () => {
      const answer = await call(body, type, headers);

      expect(answer.status).to.equal(400);
      expect(JSON.parse(answer.body).code).to.equal("invalid_argument");
      expect(answer.headers["x-request-id"]).to.match(/^[0-9a-f-]{36}$/);
      expect(answer.body).not.to.include("hunter2");
    });
  }

  it("names the fields of the wrong type", async () => {
    const answer = await call('{"key":5,"projectId":{},"ttlHours":"x","rotation":{"enabled":1}}');

    const details = JSON.parse(answer.body).details.find(
      ({ type }: { type: string }) => type === "google.rpc.BadRequest",
    );
    const fields = details.debug.field_violations.map(({ field }: { field: string }) => field);
    expect(fields).to.deep.equal(["key", "project_id", "ttl_hours", "rotation.enabled"]);
  });
});

describe("An answer over every RPC protocol", () => {
  it("is the same record", async () => {
    const { url, token } = server.admin;
    const headers = { authorization: `Bearer ${token}` };
    const transports = [
      createGrpcTransport({ baseUrl: url }),
      createGrpcTransport({ baseUrl: url, sendCompression: compressionGzip, compressMinBytes: 0 }),
      createGrpcWebTransport({ baseUrl: url, httpVersion: "1.1" }),
      createGrpcWebTransport({ baseUrl: url, httpVersion: "2", useBinaryFormat: false }),
      createConnectTransport({ baseUrl: url, httpVersion: "1.1", useBinaryFormat: false }),
      createConnectTransport({ baseUrl: url, httpVersion: "2", useBinaryFormat: true }),
    ];
    const rest = await server.admin.rest("GET", `/api/v1/secrets/${taken.id}`);

    for (const transport of transports) {
      const secret = await createClient(SecretService, transport).getSecret({ id: taken.id }, { headers });

      expect(secret.value).to.equal(rest.body.value);
      expect(secret.createdAt?.seconds).to.equal(BigInt(Math.floor(Date.parse(rest.body.created_at) / 1000)));
    }
  });

  it("carries what is public without a token, as a login", async () => {
    const transport = createConnectTransport({ baseUrl: server.url, httpVersion: "1.1" });
    const { clientId, clientSecret } = server;

    const { tokenType } = await createClient(TokenService, transport).loginUniversal({ clientId, clientSecret });

    expect(tokenType).to.equal("Bearer");
  });

  it("takes an empty binary message for one without fields", async () => {
    const body = Buffer.from(
      toBinary(SecretService.method.getSecret.input, create(SecretService.method.getSecret.input)),
    );
    const headers = {
      ":method": "POST",
      ":path": "/holdfast.secrets.v1.SecretService/GetSecret",
      "content-type": "application/proto",
      authorization: `Bearer ${server.admin.token}`,
    };

    const answer = await sendHttp2(server.url, headers, body);

    expect([answer.status, JSON.parse(answer.body).code]).to.deep.equal([404, "not_found"]);
  });
});
