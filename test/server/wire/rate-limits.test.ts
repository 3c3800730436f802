import { Code } from "@connectrpc/connect";
import type { ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import { SecretService } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { type Answer, Client } from "../../harness/client.ts";
import { Host } from "../../harness/host.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { detailsOf } from "./rpc-status.ts";

const names = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
const standing = ({ headers }: Answer) => names.map((name) => headers.get(name));
const remaining = ({ headers }: Answer) => Number(headers.get("x-ratelimit-remaining"));
const login = "/api/v1/auth/universal-auth/login";
const unknown = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";

describe("The rate limit of the API", () => {
  const server = useServer({ RATE_LIMIT_API: "100", TRUSTED_PROXIES: "127.0.0.1" });
  let nextAddress = 0;
  /** An address that was not seen before. */
  const somewhere = () => ({ "x-forwarded-for": `198.51.100.${(nextAddress += 1)}` });

  it("stands in the headers of every answer, whatever its status", async () => {
    const { id } = await server.secret();
    const cases: [method: string, path: string, status: number, body?: unknown, headers?: Record<string, string>][] = [
      ["GET", `/api/v1/secrets/${id}`, 200],
      ["GET", `/api/v1/secrets/${id}`, 304, undefined, { "if-none-match": '"1"' }],
      ["HEAD", `/api/v1/secrets/${id}`, 200],
      ["POST", `/api/v1/secrets/${id}/archive`, 200],
      ["DELETE", `/api/v1/secrets/${id}/permanent`, 204],
      ["POST", "/api/v1/secrets", 400, "{", { "content-type": "application/json" }],
      ["POST", "/api/v1/secrets", 400, " ".repeat(3 * 1024 * 1024)],
      ["GET", "/api/v1/secrets", 401, undefined, { authorization: "Bearer x" }],
      ["GET", "/api/v1/secrets", 401, undefined, { authorization: "" }],
      ["GET", `/api/v1/secrets/${unknown}`, 404],
      ["GET", "/api/v1/nothing", 404],
      ["GET", "/api/v2/secrets", 404],
      ["PATCH", "/api/v1/secrets", 405],
      ["OPTIONS", "/api/v1/secrets", 405],
      ["GET", "/api/v1/openapi.json", 200],
    ];
    for (const [method, path, status, body, headers] of cases) {
      const answer = await server.admin.rest(method, path, body, headers);

      expect(answer.status, path).to.equal(status);
      const [limit, left, reset] = standing(answer);
      expect(limit, path).to.equal("100");
      expect(left, path).to.match(/^\d+$/);
      expect(Number(reset) - Date.now() / 1000, path).to.be.within(0, 61);
    }
  });

  it("stands in the headers of an answer of class 5xx", async () => {
    const broken = await server.startReplica({ DATABASE_POOL_SIZE: "2" });
    const caller = new Client(urlOf(broken), server.admin.token);
    const { body } = await caller.rest("GET", `/api/v1/secrets?project_id=${server.projectId}`);
    expect(body.data).to.be.an("array");
    const held = await Promise.all([broken.core.db.pool.connect(), broken.core.db.pool.connect()]);

    const answer = await caller.rest("GET", `/api/v1/secrets?project_id=${server.projectId}`);
    for (const client of held) client.release();

    expect(answer.status).to.equal(503);
    expect(standing(answer)[0]).to.equal("100");
  });

  it("lets 100 through and refuses the 101st with Retry-After, over REST and gRPC", async () => {
    const busy = await server.as("busy", ["viewer"]);
    const first = await busy.rest("GET", "/api/v1/nothing");
    const answers = await Promise.all(Array.from({ length: 99 }, () => busy.rest("GET", "/api/v1/secrets")));
    const grpc = busy.grpc(SecretService);

    const refused = await busy.rest("GET", `/api/v1/secrets?project_id=${server.projectId}`);
    const overGrpc = (await grpc.getSecret({ id: unknown }, busy.metadata()).catch((e: unknown) => e)) as ServiceError;
    grpc.close();

    expect(remaining(first)).to.equal(99);
    expect(Math.min(...answers.map(remaining))).to.equal(0);
    expect(answers.every(({ status }) => status === 400)).to.equal(true);
    expect([refused.status, refused.body.error.code, remaining(refused)]).to.deep.equal([429, "RATE_LIMITED", 0]);
    expect(Number(refused.headers.get("retry-after"))).to.be.within(1, 60);
    expect(overGrpc.code).to.equal(Code.ResourceExhausted);
    const details = detailsOf(overGrpc.metadata.get("grpc-status-details-bin")[0] as Buffer);
    expect(details.reason).to.equal("RATE_LIMITED");
    expect(details.retryAfterSeconds).to.be.within(1, 60);
    expect(overGrpc.metadata.get("x-ratelimit-remaining")).to.deep.equal(["0"]);
  });

  it("is a fixed window: the end does not move while requests are counted", async () => {
    const steady = await server.as("steady", ["viewer"]);

    const resets = [];
    for (let round = 0; round < 3; round += 1) {
      const answer = await steady.rest("GET", "/api/v1/secrets");
      resets.push(Number(answer.headers.get("x-ratelimit-reset")));
      await new Promise((resolve) => setTimeout(resolve, 300));
    }

    expect(Math.max(...resets) - Math.min(...resets)).to.be.at.most(1);
  });

  it("counts each identity by itself, from wherever it calls", async () => {
    const [one, two] = await Promise.all([server.as("one", ["viewer"]), server.as("two", ["viewer"])]);

    const answers = [
      await one.rest("GET", "/api/v1/secrets", undefined, somewhere()),
      await one.rest("GET", "/api/v1/secrets", undefined, somewhere()),
      await two.rest("GET", "/api/v1/secrets"),
    ];

    expect(answers.map(remaining)).to.deep.equal([99, 98, 99]);
  });

  it("counts calls without a valid credential by their address, whatever they present", async () => {
    const here = somewhere();
    const anonymous = (headers: Record<string, string>, path = "/api/v1/secrets") =>
      server.anonymous.rest("GET", path, undefined, headers).then(remaining);

    const left = [
      await anonymous(here),
      await anonymous({ ...here, authorization: "Bearer x" }),
      await anonymous({ ...here, authorization: "Basic x" }, "/api/v1/nothing"),
      await anonymous(somewhere()),
    ];

    expect(left).to.deep.equal([99, 98, 97, 99]);
  });

  it("is the right-most address that is no trusted proxy, which a caller cannot choose", async () => {
    const { "x-forwarded-for": real } = somewhere();
    const left = async (forwarded: string) =>
      remaining(await server.anonymous.rest("GET", "/api/v1/secrets", undefined, { "x-forwarded-for": forwarded }));

    const counted = [
      await left(real),
      await left(`203.0.113.1, ${real}`),
      await left(`203.0.113.2, ${real}, 127.0.0.1`),
    ];

    expect(counted).to.deep.equal([99, 98, 97]);
  });

  it("counts IPv6 by /64", async () => {
    const left = async (forwarded: string) =>
      remaining(await server.anonymous.rest("GET", "/api/v1/secrets", undefined, { "x-forwarded-for": forwarded }));

    const counted = [await left("2001:db8:1:2::1"), await left("2001:db8:1:2:ffff::9"), await left("2001:db8:1:3::1")];

    expect(counted).to.deep.equal([99, 98, 99]);
  });

  it("is shared by all replicas", async () => {
    const shared = await server.as("shared", ["viewer"]);
    const replica = await server.startReplica();
    const there = new Client(urlOf(replica), shared.token);

    const left = [];
    for (const client of [shared, there, shared, there])
      left.push(remaining(await client.rest("GET", "/api/v1/secrets")));

    expect(left).to.deep.equal([99, 98, 97, 96]);
  });

  it("may be another for one identity", async () => {
    const own = await server.as("own", { roles: ["viewer"], rateLimitPerMinute: 2 });

    const answers = [];
    for (let call = 0; call < 3; call += 1) answers.push(await own.rest("GET", "/api/v1/secrets"));

    expect(answers.map(({ status }) => status)).to.deep.equal([400, 400, 429]);
    expect(answers.map((answer) => standing(answer)[0])).to.deep.equal(["2", "2", "2"]);
  });

  it("does not hold for health, whose answers say nothing of it", async () => {
    for (const [method, path] of [
      ["GET", "/api/v1/health"],
      ["GET", "/api/v1/health/database"],
      ["GET", "/api/v1/health/system"],
      ["POST", "/api/v1/health"],
      ["GET", "/api/v1/health/nothing"],
    ] as const) {
      const answer = await server.anonymous.rest(method, path);

      expect(standing(answer), path).to.deep.equal([null, null, null]);
    }
  });

  it("stands in the metadata of gRPC answers", async () => {
    const { id } = await server.secret();
    const grpc = server.admin.grpc(SecretService);

    const refused = (await grpc
      .getSecret({ id: unknown }, server.admin.metadata())
      .catch((e: unknown) => e)) as ServiceError;
    await grpc.getSecret({ id }, server.admin.metadata());
    grpc.close();

    for (const name of names) expect(refused.metadata.get(name)[0], name).to.match(/^\d+$/);
  });
});

describe("The rate limit of logins", () => {
  const server = useServer({ RATE_LIMIT_AUTH: "10", RATE_LIMIT_API: "100" });

  it("is 10 for both ways to log in together, per address, apart from the API's", async () => {
    // The harness has logged in once.
    const wrong = { grant_type: "client_credentials", client_id: "x", client_secret: "y" };
    const tries = [];
    for (let round = 0; round < 9; round += 1) {
      tries.push(await server.anonymous.rest("POST", round % 2 === 0 ? "/oauth/token" : login, wrong));
    }

    const refused = await server.anonymous.rest("POST", login, wrong);
    const right = await server.anonymous.rest("POST", "/oauth/token", {
      grant_type: "client_credentials",
      client_id: server.clientId,
      client_secret: server.clientSecret,
    });
    const api = await server.anonymous.rest("GET", "/api/v1/secrets");

    expect(tries.map(({ status }) => status)).to.deep.equal(Array.from({ length: 9 }, () => 401));
    expect(tries.map(remaining)).to.deep.equal([8, 7, 6, 5, 4, 3, 2, 1, 0]);
    expect([refused.status, right.status, api.status]).to.deep.equal([429, 429, 401]);
    expect(refused.headers.get("x-ratelimit-limit")).to.equal("10");
    expect(Number(refused.headers.get("retry-after"))).to.be.within(1, 60);
    expect(remaining(api)).to.equal(99);
  });

  it("counts by address even for callers with a token, and stands in the headers of a wrong method", async () => {
    const withToken = await server.admin.rest("POST", login, {});
    const wrongMethod = await server.admin.rest("GET", "/oauth/token");

    expect(withToken.status).to.equal(429);
    expect([wrongMethod.status, wrongMethod.headers.get("x-ratelimit-limit")]).to.deep.equal([405, "10"]);
  });

  it("does not believe X-Forwarded-For without trusted proxies", async () => {
    const { status } = await server.anonymous.rest("POST", login, {}, { "x-forwarded-for": "198.51.100.1" });

    expect(status).to.equal(429);
  });
});

describe("The rate limit of agents", () => {
  const server = useServer({ KEYTAB_ENABLED: "true", RATE_LIMIT_AGENT: "3", RATE_LIMIT_API: "100" });

  it("counts the calls of each agent by itself, of whatever kind they are, apart from the API's", async () => {
    const [one, other] = [await Host.enroll(server), await Host.enroll(server)];
    const codeOf = (call: Promise<unknown>) => call.then(() => 0).catch((error: ServiceError) => error.code);

    // The first was counted while it enrolled.
    const allowed = [await codeOf(one.heartbeat()), await codeOf(one.report([]))];
    const refused = [await codeOf(one.heartbeat()), await codeOf(one.report([])), await codeOf(one.watch().next())];
    const others = await codeOf(other.heartbeat());
    const api = await one.client.rest("GET", "/api/v1/keytabs");
    for (const host of [one, other]) host.close();

    expect(allowed).to.deep.equal([0, 0]);
    expect(refused).to.deep.equal([Code.ResourceExhausted, Code.ResourceExhausted, Code.ResourceExhausted]);
    expect(others).to.equal(0);
    expect([api.status, remaining(api)]).to.deep.equal([403, 99]);
  });
});

describe("A rate limit of 0", () => {
  const server = useServer({ RATE_LIMIT_API: "0" });

  it("is none, and its answers say nothing of it", async () => {
    const answer = await server.admin.rest("GET", "/api/v1/secrets");

    expect(standing(answer)).to.deep.equal([null, null, null]);
  });
});
