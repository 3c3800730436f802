import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const secrets = "/api/v1/secrets";
const failover = "/api/v1/admin/failover/nowhere/activate-dr";
const unknown = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";
let viewer: Client;
let nobody: Client;
let other: Client;
/** Holds every permission, and not the role gateway:admin. */
let deputy: Client;

before(async () => {
  deputy = await server.as("deputy", ["admin"]);
  viewer = await server.as("viewer", ["viewer"]);
  nobody = await server.as("nobody", []);
  other = (await server.otherOrganization()).admin;
});

interface Row {
  readonly why: string;
  readonly by: () => Client;
  readonly request: () => readonly [method: string, path: string, body?: unknown, headers?: Record<string, string>];
  readonly status: number;
  readonly code: string;
}

const malformed = { "content-type": "text/plain" };
const table: Row[] = [
  {
    why: "an unknown path is unknown to everybody, whatever the method and body",
    by: () => server.anonymous,
    request: () => ["PURGE", "/api/v1/nothing"],
    status: 404,
    code: "RESOURCE_NOT_FOUND",
  },
  {
    why: "a wrong method is told before a missing token",
    by: () => server.anonymous,
    request: () => ["PATCH", secrets, "{", malformed],
    status: 405,
    code: "METHOD_NOT_ALLOWED",
  },
  {
    why: "a missing token is told before a body that cannot be read",
    by: () => server.anonymous,
    request: () => ["POST", secrets, "{", malformed],
    status: 401,
    code: "AUTH_REQUIRED",
  },
  {
    why: "a missing token is told before an unknown id",
    by: () => server.anonymous,
    request: () => ["GET", `${secrets}/${unknown}`],
    status: 401,
    code: "AUTH_REQUIRED",
  },
  {
    why: "a missing token is told before a body that is too large",
    by: () => server.anonymous,
    request: () => ["POST", secrets, " ".repeat(3 * 1024 * 1024)],
    status: 401,
    code: "AUTH_REQUIRED",
  },
  {
    why: "a missing token is told before a feature that is switched off",
    by: () => server.anonymous,
    request: () => ["GET", "/api/v1/keytabs"],
    status: 401,
    code: "AUTH_REQUIRED",
  },
  {
    why: "a feature that is switched off is told before a missing permission",
    by: () => nobody,
    request: () => ["GET", "/api/v1/keytabs"],
    status: 503,
    code: "FEATURE_DISABLED",
  },
  {
    why: "a feature that is switched off is told before a body that cannot be read",
    by: () => server.admin,
    request: () => ["POST", "/api/v1/keytabs", "{", malformed],
    status: 503,
    code: "FEATURE_DISABLED",
  },
  {
    why: "a feature that is switched off is told before an unknown id",
    by: () => server.admin,
    request: () => ["GET", `/api/v1/keytabs/${unknown}`],
    status: 503,
    code: "FEATURE_DISABLED",
  },
  {
    why: "a wrong method is told before a feature that is switched off",
    by: () => server.admin,
    request: () => ["PATCH", "/api/v1/keytabs"],
    status: 405,
    code: "METHOD_NOT_ALLOWED",
  },
  {
    why: "a missing permission is told before a body that cannot be read",
    by: () => nobody,
    request: () => ["POST", secrets, "{", malformed],
    status: 403,
    code: "PERMISSION_DENIED",
  },
  {
    why: "a missing permission is told before limits",
    by: () => viewer,
    request: () => ["POST", secrets, { key: "a".repeat(256) }],
    status: 403,
    code: "PERMISSION_DENIED",
  },
  {
    why: "a missing permission is told before an unknown id",
    by: () => viewer,
    request: () => ["DELETE", `${secrets}/${unknown}`],
    status: 403,
    code: "PERMISSION_DENIED",
  },
  {
    why: "a missing role is told before a body that cannot be read",
    by: () => deputy,
    request: () => ["POST", failover, "{", malformed],
    status: 403,
    code: "PERMISSION_DENIED",
  },
  {
    why: "a missing role is told before an unknown environment",
    by: () => deputy,
    request: () => ["POST", failover, {}],
    status: 403,
    code: "PERMISSION_DENIED",
  },
  {
    why: "limits are told before an unknown environment",
    by: () => server.admin,
    request: () => ["POST", failover, { reason: "a".repeat(1001) }],
    status: 400,
    code: "VALIDATION_ERROR",
  },
  {
    why: "an unknown environment is told when all else is well",
    by: () => server.admin,
    request: () => ["POST", failover, {}],
    status: 404,
    code: "RESOURCE_NOT_FOUND",
  },
  {
    why: "limits are told before an unknown id",
    by: () => server.admin,
    request: () => ["PUT", `${secrets}/${unknown}`, { description: "a".repeat(1025) }],
    status: 400,
    code: "VALIDATION_ERROR",
  },
  {
    why: "a bad Idempotency-Key is told before an unknown project",
    by: () => server.admin,
    request: () => ["POST", secrets, { key: "k", value: "v", project_id: unknown }, { "idempotency-key": "a b" }],
    status: 400,
    code: "VALIDATION_ERROR",
  },
  {
    why: "an unknown id is told before a version conflict",
    by: () => server.admin,
    request: () => ["PUT", `${secrets}/${unknown}`, { value: "v", expected_version: 7 }],
    status: 404,
    code: "RESOURCE_NOT_FOUND",
  },
  {
    why: "another organization's id is unknown before a version conflict",
    by: () => other,
    request: () => ["PUT", `${secrets}/${taken.id}`, { value: "v", expected_version: 7 }],
    status: 404,
    code: "RESOURCE_NOT_FOUND",
  },
  {
    why: "an unknown project is told before a duplicate",
    by: () => other,
    request: () => ["POST", secrets, { key: taken.key, value: "v", project_id: server.projectId }],
    status: 404,
    code: "RESOURCE_NOT_FOUND",
  },
  {
    why: "a duplicate is told when all else is well",
    by: () => server.admin,
    request: () => ["POST", secrets, { key: taken.key, value: "v", project_id: server.projectId }],
    status: 409,
    code: "RESOURCE_CONFLICT",
  },
];

let taken: { id: string; key: string };
before(async () => {
  taken = await server.secret();
});

describe("Of several faults in one request (G-0.10)", () => {
  for (const { why, by, request, status, code } of table) {
    it(why, async () => {
      const answer = await by().rest(...request());

      expect([answer.status, answer.body.error.code]).to.deep.equal([status, code]);
    });
  }
});

describe("Of several faults in one request past the rate limit (G-0.10)", () => {
  const limited = useServer({ RATE_LIMIT_API: "1", RATE_LIMIT_AUTH: "0" });

  it("the path and the method are told before the limit, and the limit before all else", async () => {
    const answer = async (method: string, path: string, body?: unknown) =>
      (await limited.anonymous.rest(method, path, body, body === undefined ? {} : malformed)).status;
    await answer("GET", secrets);

    const statuses = [
      await answer("GET", "/api/v1/nothing"),
      await answer("PATCH", secrets),
      await answer("GET", secrets),
      await answer("POST", secrets, "{"),
      await answer("GET", `${secrets}/${unknown}`),
    ];

    expect(statuses).to.deep.equal([404, 405, 429, 429, 429]);
  });
});
