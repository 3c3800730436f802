import { timestampDate } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { ApiTokenService } from "../../../gen/ts/holdfast/auth/v1/api_token_service_pb.ts";
import { type Answer, Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/api-tokens";
const users = "/api/v1/users";
const sessions = "/api/v1/auth/session";

let count = 0;
const newName = (kind: string) => `${kind}-${(count += 1)}`;
const codeOf = ({ status, body }: Answer) => (status < 300 ? status : `${status} ${body.error.code}`);
const withKey = (key: string) => ({ "idempotency-key": key });

async function newToken(fields: Record<string, unknown> = {}, by: Client = server.admin): Promise<Client> {
  const { status, body } = await by.rest("POST", path, { name: "ci", ...fields });
  expect(status, JSON.stringify(body)).to.equal(201);
  return new Client(server.url, body.token, body.id);
}

describe("An API token and the Idempotency-Key of a call that it did not make", () => {
  it("is not shown the unrestricted token that a login of its owner made", async () => {
    const weak = await newToken({ permissions: ["secret:read"] });
    const [key, body] = [newName("key"), { name: newName("token") }];
    await server.admin.rest("POST", path, body, withKey(key));

    const replayed = await weak.rest("POST", path, body, withKey(key));

    expect(codeOf(replayed)).to.equal("409 RESOURCE_CONFLICT");
  });

  it("is not shown the enrollment token of a user whom it could not have made", async () => {
    const weak = await newToken({ permissions: ["identity:write"] });
    const [key, body] = [newName("key"), { username: newName("boss"), roles: ["admin"] }];
    await server.admin.rest("POST", users, body, withKey(key));

    const replayed = await weak.rest("POST", users, body, withKey(key));

    expect(codeOf(replayed)).to.equal("409 RESOURCE_CONFLICT");
    expect(codeOf(await weak.rest("POST", users, body))).to.equal("403 PERMISSION_DENIED");
  });

  it("is not shown what another token of its owner made, nor is its owner what it made", async () => {
    const [one, other] = [await newToken(), await newToken()];
    const [key, body] = [newName("key"), { name: newName("project") }];

    const first = await one.rest("POST", "/api/v1/projects", body, withKey(key));
    const again = await one.rest("POST", "/api/v1/projects", body, withKey(key));
    const others = [
      await other.rest("POST", "/api/v1/projects", body, withKey(key)),
      await server.admin.rest("POST", "/api/v1/projects", body, withKey(key)),
    ];

    expect([first, again].map(codeOf)).to.deep.equal([201, 201]);
    expect(again.headers.get("idempotency-replayed")).to.equal("true");
    expect(others.map(codeOf)).to.deep.equal(["409 RESOURCE_CONFLICT", "409 RESOURCE_CONFLICT"]);
  });

  it("is no obstacle to a login that tries again what an earlier login of the identity did", async () => {
    const later = await server.login(server.clientId, server.clientSecret);
    const [key, body] = [newName("key"), { name: newName("project") }];
    const first = await server.admin.rest("POST", "/api/v1/projects", body, withKey(key));

    const again = await later.rest("POST", "/api/v1/projects", body, withKey(key));

    expect(again.body).to.deep.equal(first.body);
  });

  it("takes an order of the body's fields for no difference", async () => {
    const key = newName("key");
    const first = await server.admin.rest("POST", path, { name: "ci", expires_in_days: 5 }, withKey(key));

    const again = await server.admin.rest("POST", path, { expires_in_days: 5, name: "ci" }, withKey(key));

    expect(again.body).to.deep.equal(first.body);
  });
});

describe("A call about the caller's own credential, under an Idempotency-Key", () => {
  it("does not say of one token that it is logged out because another one was", async () => {
    const [one, other] = [
      await server.login(server.clientId, server.clientSecret),
      await server.login(server.clientId, server.clientSecret),
    ];
    const key = newName("key");

    const answers = [
      await one.rest("POST", "/api/v1/auth/logout", {}, withKey(key)),
      await other.rest("POST", "/api/v1/auth/logout", {}, withKey(key)),
    ];

    expect(answers.map(codeOf)).to.deep.equal([204, "409 RESOURCE_CONFLICT"]);
    expect(codeOf(await other.rest("GET", "/api/v1/whoami"))).to.equal(200);
  });

  it("begins a session each time: an answer without its cookies would be of no use", async () => {
    const key = newName("key");
    const answers = [];
    for (let attempt = 0; attempt < 2; attempt += 1) {
      answers.push(await server.admin.rest("POST", sessions, {}, withKey(key)));
    }

    for (const { status, headers } of answers) {
      const [cookie = ""] = headers.getSetCookie();
      const used = await server.anonymous.rest("GET", "/api/v1/whoami", undefined, {
        cookie: cookie.split(";")[0] ?? "",
      });
      expect([status, used.status]).to.deep.equal([201, 200]);
    }
  });

  it("is ignored by a login, whatever bearer token comes along", async () => {
    const fields = { client_id: server.clientId, client_secret: server.clientSecret };
    const login = "/api/v1/auth/universal-auth/login";
    const key = newName("key");

    const answers = [
      await server.admin.rest("POST", login, fields, withKey(key)),
      await server.admin.rest("POST", login, fields, withKey(key)),
    ];

    expect(new Set(answers.map(({ body }) => body.access_token)).size).to.equal(2);
    expect(await server.sql("select 1 from idempotency_record where key = $1", [key])).to.deep.equal([]);
  });
});

describe("A role that is named like a permission", () => {
  it("gives what it holds and not what it is called, to whoami and to a token too", async () => {
    const name = "secret:permanent_delete";
    await server.admin.rest("POST", "/api/v1/roles", { name, permissions: ["secret:read"] });
    const pretender = await server.as("pretender", [name]);
    const { id } = await server.secret();

    const { body } = await pretender.rest("GET", `/api/v1/whoami?can=${name}&can=secret:read`);
    const token = await pretender.rest("POST", path, { name: "x", permissions: [name] });

    expect(body.can.map(({ allowed }: { allowed: boolean }) => allowed)).to.deep.equal([false, true]);
    expect(codeOf(token)).to.equal("403 PERMISSION_DENIED");
    expect(codeOf(await pretender.rest("DELETE", `/api/v1/secrets/${id}/permanent`))).to.equal("403 PERMISSION_DENIED");
  });
});

describe("An API token of a machine identity", () => {
  it("is used from the addresses that both it and its owner allow", async () => {
    const owner = await server.as(newName("identity"), ["viewer"]);
    const token = await newToken({ allowed_ips: ["127.0.0.1"] }, owner);
    const before = await token.rest("GET", "/api/v1/projects");

    await server.admin.rest("PUT", `/api/v1/machine-identities/${owner.id}`, { allowed_ips: ["192.0.2.0/24"] });

    expect(codeOf(before)).to.equal(200);
    expect(codeOf(await token.rest("GET", "/api/v1/projects"))).to.equal("403 PERMISSION_DENIED");
  });

  it("is not made for a project of another organization", async () => {
    const { projectId } = await server.otherOrganization();

    const answer = await server.admin.rest("POST", path, { name: "x", project_ids: [server.projectId, projectId] });

    expect(codeOf(answer)).to.equal("404 RESOURCE_NOT_FOUND");
    expect(answer.body.error.details[0].field).to.equal("project_ids[1]");
  });
});

describe("A restricted API token of an administrator", () => {
  it("makes and changes identities only as far as it may itself, whatever its owner may", async () => {
    const clerk = await newToken({ permissions: ["identity:read", "identity:write", "role:write", "secret:read"] });
    const { body: boss } = await server.admin.rest("POST", users, { username: newName("boss"), roles: ["admin"] });
    const { body: role } = await server.admin.rest("POST", "/api/v1/roles", {
      name: newName("role"),
      permissions: ["secret:write"],
    });
    const owner = `/api/v1/machine-identities/${server.admin.id}`;

    const refused = [
      await clerk.rest("POST", users, { username: newName("user"), roles: ["admin"] }),
      await clerk.rest("POST", users, { username: newName("user"), roles: ["gateway:admin"] }),
      await clerk.rest("POST", users, {
        username: newName("user"),
        project_roles: [{ project_id: server.projectId, role: "editor" }],
      }),
      await clerk.rest("POST", `${users}/${boss.id}/reset-enrollment`, {}),
      await clerk.rest("PUT", `${users}/${boss.id}`, { display_name: "mine" }),
      await clerk.rest("DELETE", `${users}/${boss.id}`),
      await clerk.rest("POST", `${owner}/client-secrets`, {}),
      await clerk.rest("PUT", owner, { allowed_ips: [] }),
      await clerk.rest("POST", "/api/v1/roles", { name: newName("role"), permissions: ["secret:write"] }),
      await clerk.rest("PUT", `/api/v1/roles/${role.id}`, { permissions: [] }),
      await clerk.rest("DELETE", `/api/v1/roles/${role.id}`),
    ];
    const made = await clerk.rest("POST", "/api/v1/roles", { name: newName("role"), permissions: ["secret:read"] });

    expect(new Set(refused.map(codeOf))).to.deep.equal(new Set(["403 PERMISSION_DENIED"]));
    expect(codeOf(made)).to.equal(201);
  });

  it("to one project opens nothing of the organization and nothing elsewhere, through no child of its own either", async () => {
    const { body: other } = await server.admin.rest("POST", "/api/v1/projects", { name: newName("project") });
    const elsewhere = await server.secret({ project_id: other.id });
    const inProject = await newToken({ project_ids: [server.projectId.toUpperCase()] });
    const child = await newToken({}, inProject);
    const grandchild = await newToken({ permissions: ["secret:read"] }, child);

    for (const client of [inProject, child, grandchild]) {
      const refused = [
        await client.rest("GET", `/api/v1/secrets/${elsewhere.id}`),
        await client.rest("GET", users),
        await client.rest("POST", "/api/v1/projects", { name: newName("project") }),
        await client.rest("POST", "/api/v1/organizations", { name: newName("organization") }),
        await client.rest("POST", path, { name: "wider", project_ids: [server.projectId, other.id] }),
        await client.rest("POST", path, { name: "wider", permissions: ["gateway:admin"] }),
        await client.rest("POST", path, { name: "faster", rate_limit_per_minute: 10_000 }),
      ];
      expect(refused.map(codeOf)).to.deep.equal(Array(7).fill("403 PERMISSION_DENIED"));
    }
    const { id } = await server.secret();
    expect(codeOf(await grandchild.rest("GET", `/api/v1/secrets/${id}`))).to.equal(200);
    expect(codeOf(await grandchild.rest("DELETE", `/api/v1/secrets/${id}`))).to.equal("403 PERMISSION_DENIED");
  });
});

describe("The end of an API token, over gRPC", () => {
  const create = async (fields: Record<string, unknown>) => {
    const grpc = server.admin.grpc(ApiTokenService);
    try {
      const { expiresAt } = await grpc.createApiToken({ name: "ci", ...fields }, server.admin.metadata());
      return expiresAt === undefined ? "never" : timestampDate(expiresAt).toISOString();
    } catch (error) {
      return (error as { code: number }).code;
    } finally {
      grpc.close();
    }
  };
  const inMinutes = BigInt(Math.floor(Date.now() / 1000) + 300);
  const invalidArgument = 3;

  it("is refused when it is no time that there is, past or too far away", async () => {
    for (const seconds of [2n ** 62n, -(2n ** 62n), 8_640_000_000_001n, 253_402_300_799n, 0n, -1n]) {
      expect(await create({ expiresAt: { seconds } }), String(seconds)).to.equal(invalidArgument);
    }
    expect(await create({ expiresAt: { seconds: inMinutes }, expiresInDays: 1 })).to.equal(invalidArgument);
  });

  it("is kept to the millisecond", async () => {
    const end = await create({ expiresAt: { seconds: inMinutes, nanos: 123_000_000 } });

    expect(end).to.equal(new Date(Number(inMinutes) * 1000 + 123).toISOString());
  });

  it("is none only for a mask that names it, and 90 days for one that names nothing of it", async () => {
    const never = await create({ updateMask: { paths: ["expires_in_days"] } });
    const usual = await create({ updateMask: { paths: ["name", "nothing"] } });

    expect(never).to.equal("never");
    expect(Math.round((Date.parse(String(usual)) - Date.now()) / 86_400_000)).to.equal(90);
  });
});
