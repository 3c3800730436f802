import type { Value } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import type { ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import { RotationConfigService } from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { expectSpecifiedError, request, send } from "./raw-http.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const secrets = "/api/v1/secrets";
const rest = (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
  server.admin.rest(method, path, body, headers);
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
let count = 0;
const draft = (more: Record<string, unknown> = {}) => ({
  key: `k${(count += 1)}`,
  value: "v",
  project_id: server.projectId,
  ...more,
});

describe("An answer (G-0.1, G-0.4)", () => {
  it("has every field of the record in snake_case, null for what does not apply, and times with milliseconds", async () => {
    const { body } = await rest("POST", secrets, draft());

    expect(Object.keys(body).sort()).to.deep.equal(
      [
        "id",
        "name",
        "key",
        "type",
        "description",
        "version",
        "tags",
        "rotation",
        "created_at",
        "updated_at",
        "project_id",
        "environment",
        "status",
        "expires_at",
        "created_by",
        "metadata",
        "archived_at",
        "deleted_at",
      ].sort(),
    );
    expect(body).to.deep.include({ environment: null, expires_at: null, description: "", tags: [], metadata: {} });
    expect(body.rotation).to.deep.equal({
      enabled: false,
      interval_days: null,
      last_rotated: null,
      next_rotation: null,
    });
    expect(body.created_at).to.match(instant);
    expect(body.updated_at).to.match(instant);
  });

  it("has numbers for integers", async () => {
    const { body } = await rest("GET", `${secrets}?project_id=${server.projectId}`);

    expect(body.pagination.total).to.be.a("number");
    expect(body.data[0].version).to.be.a("number");
  });

  it("carries Cache-Control: no-store, nosniff, and says that it is no page", async () => {
    for (const path of [secrets, "/api/v1/health", "/api/v1/nothing", "/api/v1/openapi.json"]) {
      const { headers } = await rest("GET", path);

      expect(headers.get("cache-control"), path).to.equal("no-store");
      expect(headers.get("x-content-type-options"), path).to.equal("nosniff");
      expect(headers.get("content-security-policy"), path).to.include("frame-ancestors 'none'");
    }
  });
});

describe("A request (G-0.1 to G-0.3)", () => {
  it("may use camelCase for any field, within lists too", async () => {
    const { key, value, project_id: projectId } = draft();

    const secret = await rest("POST", secrets, {
      key,
      value,
      projectId,
      ttlHours: 1,
      changeReason: "x",
      rotation: { intervalDays: 9 },
    });
    const identity = await rest("POST", "/api/v1/machine-identities", {
      name: "camel",
      projectRoles: [{ projectId, role: "viewer" }],
      accessTokenTtlSeconds: 600,
    });

    expect([secret.status, identity.status]).to.deep.equal([201, 201]);
    expect(secret.body.rotation.interval_days).to.equal(9);
    expect(identity.body).to.deep.include({
      project_roles: [{ project_id: projectId, role: "viewer" }],
      access_token_ttl_seconds: 600,
    });
  });

  it("may use the documented aliases", async () => {
    const { key, ...others } = draft();

    const created = await rest("POST", secrets, { name: key, ...others });
    const updated = await rest("PUT", `${secrets}/${created.body.id}`, { value: "w", cas: 1 });
    const back = await rest("POST", `${secrets}/${created.body.id}/rollback`, { targetVersion: 1 });
    const list = await rest("GET", `${secrets}?projectId=${server.projectId}&limit=1`);

    expect([created.status, updated.status, back.status, list.status]).to.deep.equal([201, 200, 200, 200]);
    expect(created.body.key).to.equal(key);
    expect(list.body.pagination.per_page).to.equal(1);
  });

  it("may spell a field twice when both say the same, and not when they differ", async () => {
    const same = draft();
    const cases: [Record<string, unknown>, number, string?][] = [
      [{ ...same, name: same.key, projectId: same.project_id }, 201],
      [draft({ name: "other" }), 400, "key"],
      [draft({ projectId: "other" }), 400, "project_id"],
      [draft({ rotation: { interval_days: 1, intervalDays: 2 } }), 400, "rotation.interval_days"],
    ];

    for (const [given, expected, field] of cases) {
      const { status, body } = await rest("POST", secrets, given);

      expect(status, JSON.stringify(given)).to.equal(expected);
      if (field !== undefined) expect(body.error.details[0].field).to.equal(field);
    }
  });

  it("may hold fields that nobody knows, in the body and in the query", async () => {
    const created = await rest("POST", secrets, draft({ colour: "red", rotation: { mood: 1 }, organization_id: "x" }));
    const list = await rest("GET", `${secrets}?project_id=${server.projectId}&colour=red&organization_id=x`);

    expect([created.status, list.status]).to.deep.equal([201, 200]);
    expect(created.body).not.to.have.property("colour");
  });

  it("says nothing by null, but clears what is nullable in a PUT", async () => {
    const created = await rest(
      "POST",
      secrets,
      draft({ description: "d", tags: ["a"], environment: null, ttl_hours: null }),
    );
    const nulls = { description: null, tags: null, value: null, rotation: null, change_reason: null };

    const { status, body } = await rest("PUT", `${secrets}/${created.body.id}`, nulls);

    expect([created.status, status]).to.deep.equal([201, 200]);
    expect(body).to.deep.include({ description: "", tags: ["a"], version: 1 });
  });

  it("clears a nullable number by null and keeps it when it is left out", async () => {
    const given = { name: "nullable", rate_limit_per_minute: 5, access_token_ttl_seconds: 600 };
    const { body: identity } = await rest("POST", "/api/v1/machine-identities", given);
    const path = `/api/v1/machine-identities/${identity.id}`;

    const kept = await rest("PUT", path, { name: "nullable-2" });
    const cleared = await rest("PUT", path, { rate_limit_per_minute: null, accessTokenTtlSeconds: null });

    expect(kept.body).to.include({ rate_limit_per_minute: 5, access_token_ttl_seconds: 600 });
    expect(cleared.body).to.include({ rate_limit_per_minute: null, access_token_ttl_seconds: 3600 });
  });

  it("may give a field in several kinds of JSON where that is documented, by any of its names", async () => {
    const { id } = await server.secret();
    const interval = async (given: Record<string, unknown>) => {
      const { status, body } = await rest("PUT", `${secrets}/${id}/rotation-config`, given);
      return status === 200 ? body.interval_days : body.error.details[0].field;
    };

    expect(await interval({ interval_days: 7 })).to.equal(7);
    expect(await interval({ rotationIntervalDays: "8d" })).to.equal(8);
    expect(await interval({ interval: 9, intervalDays: 9 })).to.equal(9);
    expect(await interval({ interval_days: null })).to.equal(9);
    expect(await interval({ interval: 9, interval_days: "9d" })).to.equal("interval_days");
    expect(await interval({ interval: { days: 9 } })).to.equal("interval_days");
  });

  it("holds JSON over gRPC too where it may hold any: no number without end, and not nothing", async () => {
    const { id } = await server.secret();
    const grpc = server.admin.grpc(RotationConfigService);
    const update = (kind: Value["kind"]) =>
      grpc.updateRotationConfig({ id, intervalDays: { kind } }, server.admin.metadata()).then(
        ({ intervalDays }) => intervalDays,
        ({ code, details }: ServiceError) => [code, details],
      );

    const answers = [
      await update({ case: "stringValue", value: "5d" }),
      await update({ case: "numberValue", value: Number.NaN }),
      await update({ case: "numberValue", value: Number.NEGATIVE_INFINITY }),
      await update({ case: undefined }),
    ];
    grpc.close();

    const refused = [Code.InvalidArgument, "Request validation failed"];
    expect(answers).to.deep.equal([5, refused, refused, refused]);
  });

  it("cannot smuggle a mask, nor an id, past the path", async () => {
    const { id } = await server.secret({ description: "old" });
    const other = await server.secret({ description: "other" });

    const { body } = await rest("PUT", `${secrets}/${id}`, {
      id: other.id,
      update_mask: "value",
      updateMask: "tags",
      description: "new",
    });

    expect(body).to.include({ id, description: "new" });
  });
});

describe("An id (G-0.6)", () => {
  it("that is malformed is not found in a path, and invalid in a body or a query", async () => {
    const inPath = await rest("GET", `${secrets}/nope`);
    const inBody = await rest("POST", secrets, draft({ project_id: "nope" }));
    const inQuery = await rest("GET", `${secrets}?project_id=nope`);

    expect([inPath.status, inBody.status, inQuery.status]).to.deep.equal([404, 400, 400]);
    expect(inBody.body.error.details[0].field).to.equal("project_id");
  });

  it("of another organization is as unknown as one that does not exist", async () => {
    const { admin, projectId } = await server.otherOrganization();
    const theirs = await server.secret({ project_id: projectId }, admin);
    const unknown = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";
    const paths = [
      (id: string) => ["GET", `${secrets}/${id}`],
      (id: string) => ["DELETE", `${secrets}/${id}/permanent`],
    ];

    for (const of of paths) {
      const [[method = "", path = ""], [, absent = ""]] = [of(theirs.id), of(unknown)];
      const [foreign, none] = await Promise.all([rest(method, path), rest(method, absent)]);

      expect(foreign.status).to.equal(404);
      expect(foreign.body.error.message).to.equal(none.body.error.message);
    }
    const created = await rest("POST", secrets, draft({ project_id: projectId }));
    expect(created.status).to.equal(404);
    expect(created.body.error.details).to.deep.equal([{ field: "project_id", message: "does not exist" }]);
  });

  it("of a keytab may be written with kt_ and without, and in upper case", async () => {
    const { id } = await importKeytab(server.admin);
    const bare = id.slice("kt_".length);

    for (const form of [id, bare, `kt_${bare.toUpperCase()}`, bare.toUpperCase()]) {
      const { status, body } = await rest("GET", `/api/v1/keytabs/${form}`);
      expect([status, body.id], form).to.deep.equal([200, id]);
    }
    for (const form of [`KT-${bare}`, `kt_kt_${bare}`, `${bare}0`, "kt_"]) {
      expect((await rest("GET", `/api/v1/keytabs/${form}`)).status, form).to.equal(404);
    }
    expect(id).to.match(/^kt_[0-9a-f-]{36}$/);
  });

  it("may be written in upper case, in a path, a body and a query", async () => {
    const upper = (text: string) => text.toUpperCase();

    const created = await rest("POST", secrets, draft({ project_id: upper(server.projectId) }));
    const read = await rest("GET", `${secrets}/${upper(created.body.id)}`);
    const listed = await rest("GET", `${secrets}?project_id=${upper(server.projectId)}`);

    expect([created.status, read.status, listed.status]).to.deep.equal([201, 200, 200]);
    expect(created.body.project_id).to.equal(server.projectId);
    expect(read.body).to.include({ id: created.body.id, value: "v" });
  });
});

describe("A page of a list (G-0.16, gaps section 12)", () => {
  const keytabStyle = ["/api/v1/keytabs", "/api/v1/keytabs/discovered"];
  const lists = [...keytabStyle, "/api/v1/agents", "/api/v1/agents/enrollment-tokens", "/api/v1/projects"];
  const paging = ["x-total-count", "x-page", "x-per-page"];
  const sizeOf = (body: { limit?: number; pagination?: { per_page: number } }) =>
    body.limit ?? body.pagination?.per_page;
  let ofProject = "";
  before(async () => {
    const { body } = await rest("POST", "/api/v1/projects", { name: "paged" });
    ofProject = `/api/v1/keytabs?project_id=${body.id}`;
    await Promise.all([1, 2, 3].map(() => importKeytab(server.admin, newKeytab(), { project_id: body.id })));
  });

  it("says which page it is beside the data of keytabs, and apart from other data", async () => {
    for (const path of lists) {
      const { body } = await rest("GET", path);

      const members = keytabStyle.includes(path) ? ["data", "total", "page", "limit"] : ["data", "pagination"];
      expect(Object.keys(body), path).to.have.members(members);
    }
  });

  it("says the same in headers", async () => {
    const { headers, body } = await rest("GET", `${ofProject}&page=2&limit=2`);

    expect(paging.map((name) => headers.get(name))).to.deep.equal(["3", "2", "2"]);
    expect([body.total, body.page, body.limit, body.data.length]).to.deep.equal([3, 2, 2, 1]);
    for (const path of lists) {
      const answer = await rest("GET", path);
      expect(answer.headers.get("x-per-page"), path).to.equal("25");
    }
  });

  it("is as large as limit or per_page says, by whichever name, and not by both when they differ", async () => {
    for (const path of lists) {
      const [limit, perPage] = [await rest("GET", `${path}?limit=7`), await rest("GET", `${path}?per_page=7`)];
      const both = await rest("GET", `${path}?per_page=7&limit=7`);
      const unclear = await rest("GET", `${path}?per_page=7&limit=8`);

      expect(
        [limit, perPage, both].map(({ body }) => sizeOf(body)),
        path,
      ).to.deep.equal([7, 7, 7]);
      expect([unclear.status, unclear.body.error.code], path).to.deep.equal([400, "VALIDATION_ERROR"]);
    }
  });

  it("is never made to fit: what is no page is refused, and one past the end is empty", async () => {
    for (const path of lists) {
      for (const query of ["page=0", "limit=0", "limit=101", "page=x", "limit=2.5"]) {
        expect((await rest("GET", `${path}?${query}`)).status, `${path}?${query}`).to.equal(400);
      }
    }
    const { status, headers, body } = await rest("GET", `${ofProject}&page=9`);

    expect([status, body.data, body.total]).to.deep.equal([200, [], 3]);
    expect(headers.get("x-total-count")).to.equal("3");
  });
});

describe("A path (G-0.11)", () => {
  it("takes HEAD wherever it takes GET, and answers it without a body", async () => {
    const { id } = await server.secret();
    for (const path of [
      `${secrets}/${id}`,
      `${secrets}?project_id=${server.projectId}`,
      "/api/v1/health",
      "/api/v1/nothing",
    ]) {
      const got = await rest("GET", path);

      const headers = { Authorization: `Bearer ${server.admin.token}` };
      const heads = await send(server.url, request("HEAD", path, { headers }));

      expect(heads.length, path).to.equal(1);
      expect(heads[0]?.status, path).to.equal(got.status);
      expect(heads[0]?.body, path).to.equal("");
      expect(heads[0]?.headers["content-type"], path).to.equal("application/json; charset=utf-8");
    }
  });

  it("says which methods it takes when it does not take the one", async () => {
    const cases = {
      [secrets]: "GET, POST, HEAD",
      [`${secrets}/x`]: "GET, PUT, DELETE, HEAD",
      "/oauth/token": "POST",
      "/api/v1/health": "GET, HEAD",
    };
    for (const [path, allow] of Object.entries(cases)) {
      const { status, headers } = await server.anonymous.rest("PATCH", path);

      expect(status, path).to.equal(405);
      expect(headers.get("allow"), path).to.equal(allow);
    }
  });

  it("may end in a slash, and may be given with a host", async () => {
    const withSlash = await rest("GET", `${secrets}/?project_id=${server.projectId}`);
    const [absolute] = await send(server.url, request("GET", "http://holdfast:8080/api/v1/health"));
    const [onlyHost] = await send(server.url, request("GET", "http://holdfast"));

    expect([withSlash.status, absolute?.status, onlyHost?.status]).to.deep.equal([200, 200, 404]);
  });

  it("that is a word comes before one that is an id", async () => {
    for (const word of ["dashboard", "discovered", "cipher-policy"]) {
      expect((await rest("GET", `/api/v1/keytabs/${word}`)).status, word).to.equal(200);
    }
    expect((await rest("GET", "/api/v1/agents/enrollment-tokens")).status).to.equal(200);
    expect((await rest("POST", "/api/v1/keytabs/refresh-compliance")).status).to.equal(200);
    expect((await rest("GET", "/api/v1/keytabs/nothing")).status).to.equal(404);
  });

  it("that is unknown is 404 with a token and without", async () => {
    for (const client of [server.admin, server.anonymous]) {
      for (const path of ["/api/v1/nothing", "/api/v2/secrets", "/nothing"]) {
        const { status, body } = await client.rest("POST", path, {});

        expect([status, body.error.code], path).to.deep.equal([404, "RESOURCE_NOT_FOUND"]);
      }
    }
  });
});

describe("X-Request-Id (G-0.12)", () => {
  it("is adopted when it is usable, on success and in errors", async () => {
    for (const id of ["a", "Az09._-", "x".repeat(128)]) {
      const fine = await rest("GET", "/api/v1/health", undefined, { "x-request-id": id });
      const refused = await rest("GET", `${secrets}/x`, undefined, { "x-request-id": id });

      expect(fine.headers.get("x-request-id")).to.equal(id);
      expect(refused.headers.get("x-request-id")).to.equal(id);
      expect(refused.body.error.request_id).to.equal(id);
    }
  });

  it("is replaced when it is not", async () => {
    for (const id of ["", "x".repeat(129), "a b", "a/b", "é", "<script>", "a,b"]) {
      const bytes = request("GET", `${secrets}/x`, { headers: { "X-Request-Id": id } });

      const [answer] = await send(server.url, bytes);

      const error = JSON.parse(answer?.body ?? "").error;
      expect(error.request_id, id).to.match(/^[0-9a-f-]{36}$/);
      expect(answer?.headers["x-request-id"]).to.equal(error.request_id);
    }
  });

  it("is replaced when it is given twice", async () => {
    const [answer] = await send(
      server.url,
      request("GET", secrets, { headers: { "X-Request-Id": "a\r\nX-Request-Id: b" } }),
    );

    expect(answer?.headers["x-request-id"]).to.match(/^[0-9a-f-]{36}$/);
    expectSpecifiedError(answer as NonNullable<typeof answer>);
  });
});

describe("Success (G-0.9)", () => {
  it("is 201 with a Location that leads to what was created", async () => {
    const { status, headers, body } = await rest("POST", secrets, draft());

    const followed = await rest("GET", headers.get("location") ?? "");

    expect(status).to.equal(201);
    expect(followed.body.id).to.equal(body.id);
  });

  it("is 204 without a body for DELETE, and 200 for an action", async () => {
    const { id } = await server.secret();

    const archived = await rest("POST", `${secrets}/${id}/archive`);
    const deleted = await rest("DELETE", `${secrets}/${id}/permanent`);

    expect([archived.status, deleted.status]).to.deep.equal([200, 204]);
    expect(deleted.body).to.equal("");
    expect(deleted.headers.get("content-type")).to.equal(null);
  });
});

describe("Optimistic concurrency (G-0.14)", () => {
  const said: Record<string, (version: number) => [Record<string, unknown>, Record<string, string>]> = {
    "If-Match": (version) => [{}, { "if-match": `"${version}"` }],
    "If-Match without quotes": (version) => [{}, { "if-match": String(version) }],
    "a weak If-Match": (version) => [{}, { "if-match": `W/"${version}"` }],
    expected_version: (version) => [{ expected_version: version }, {}],
    expectedVersion: (version) => [{ expectedVersion: version }, {}],
    cas: (version) => [{ cas: version }, {}],
  };
  for (const [how, say] of Object.entries(said)) {
    it(`by ${how}: the current version is taken, another is 409 and changes nothing`, async () => {
      const { id } = await server.secret();
      const put = ([fields, headers]: ReturnType<typeof say>, value: string) =>
        rest("PUT", `${secrets}/${id}`, { value, ...fields }, headers);

      const taken = await put(say(1), "second");
      const refused = await put(say(1), "third");

      expect([taken.status, refused.status]).to.deep.equal([200, 409]);
      expect(refused.body.error).to.deep.include({ code: "RESOURCE_CONFLICT" });
      const { body } = await rest("GET", `${secrets}/${id}`);
      expect(body).to.include({ version: 2, value: "second" });
    });
  }

  it("holds for a rollback too, and refuses a header and a field that differ", async () => {
    const { id } = await server.secret();
    await rest("PUT", `${secrets}/${id}`, { value: "second" });

    const stale = await rest("POST", `${secrets}/${id}/rollback`, { version: 1 }, { "if-match": '"1"' });
    const unclear = await rest("PUT", `${secrets}/${id}`, { value: "x", cas: 2 }, { "if-match": '"1"' });
    const fine = await rest("POST", `${secrets}/${id}/rollback`, { version: 1 }, { "if-match": '"2"' });

    expect([stale.status, unclear.status, fine.status]).to.deep.equal([409, 400, 200]);
  });

  it("starts from the ETag of a read, and the last write wins without it", async () => {
    const { id } = await server.secret();

    const { headers } = await rest("GET", `${secrets}/${id}`);
    const any = await rest("PUT", `${secrets}/${id}`, { value: "x" }, { "if-match": "*" });
    const none = await rest("PUT", `${secrets}/${id}`, { value: "y" });

    expect(headers.get("etag")).to.equal('"1"');
    expect([any.status, none.status]).to.deep.equal([200, 200]);
  });
});
