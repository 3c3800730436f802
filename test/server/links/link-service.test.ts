import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { Links, linkKeys, linksPath, toWebhook } from "./links.ts";

const server = useServer();
const links = new Links(server);

const url = "https://hooks.example.com/secrets";

describe("Links of a secret", () => {
  it("are made with what the integration needs, and answered with its defaults and without credentials", async () => {
    const { id } = await server.secret({ environment: "production" });

    const { status, headers, body } = await links.post(id, {
      ...toWebhook(url, { name: "billing", environment: "eu" }),
      credentials: { signing_secret: "shared", headers: { authorization: "Bearer b" } },
    });

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(linksPath(id, body.id));
    expect(body).to.have.all.keys(linkKeys);
    expect(body).to.deep.include({
      secret_id: id,
      integration: "webhook",
      name: "billing",
      environment: "eu",
      config: { url, headers: {} },
      has_credentials: true,
      sync_enabled: true,
      status: "pending",
      last_synced: null,
      version: null,
      last_error: null,
      created_by: server.admin.id,
    });
    expect(JSON.stringify(body)).not.to.include("shared").and.not.to.include("Bearer");
  });

  it("follow the secret, are on, and have no name, unless they say otherwise", async () => {
    const link = await links.of(toWebhook(url));

    expect(link).to.deep.include({ name: "", environment: null, sync_enabled: true, has_credentials: false });
  });

  it("are disabled when they are made so", async () => {
    expect(await links.of(toWebhook(url, { sync_enabled: false }))).to.deep.include({
      sync_enabled: false,
      status: "disabled",
    });
  });

  for (const alias of ["type", "kind", "provider", "integration_type"]) {
    it(`may be of an integration that is called ${alias}`, async () => {
      const { id } = await server.secret();

      const { status, body } = await links.post(id, { [alias]: "webhook", target: { url } });

      expect(status).to.equal(201);
      expect(body).to.deep.include({ integration: "webhook", config: { url, headers: {} } });
    });
  }

  it("are listed and read in the order in which they were made", async () => {
    const first = await links.of(toWebhook(url));
    const { body: second } = await links.post(first.secret_id, toWebhook(`${url}/second`));

    const list = await server.admin.rest("GET", linksPath(first.secret_id));
    const one = await server.admin.rest("GET", linksPath(first.secret_id, second.id));

    expect(list.body).to.deep.equal({ data: [first, second] });
    expect(one.body).to.deep.equal(second);
  });

  it("take null in a config or in credentials for what is left out", async () => {
    const config = { url, headers: null };
    const awsConfig = { region: "eu-west-1", secret_name: "app/db" };
    const awsKeys = { access_key_id: "A".repeat(16), secret_access_key: "k" };

    const toHook = await links.of(toWebhook(url, { config, credentials: { signing_secret: null, headers: null } }));
    const toAws = await links.of({
      integration: "aws-secrets-manager",
      config: { ...awsConfig, endpoint_url: null, kms_key_id: null },
      credentials: { ...awsKeys, session_token: null },
      sync_enabled: false,
    });

    expect(toHook.config).to.deep.equal({ url, headers: {} });
    expect(toAws.config).to.deep.equal(awsConfig);
  });

  it("may lead to a place that the server may not send to: it is found out when it does", async () => {
    const link = await links.of(toWebhook("http://169.254.169.254/latest"));

    expect(link.status).to.equal("pending");
  });

  const large = "x".repeat(8000);
  const largeHeaders = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`h${index}`, large]));
  for (const [what, body, field] of [
    ["an unknown integration", { integration: "ftp", config: {} }, "integration"],
    ["no integration", { config: { url } }, "integration"],
    ["the name of something else that objects have", { integration: "constructor", config: {} }, "integration"],
    ["no config", { integration: "webhook" }, "config"],
    ["a config without what is required", { integration: "webhook", config: {} }, "config.url"],
    ["a config that is not an object", { integration: "webhook", config: [url] }, "config"],
    ["a field that the integration does not know", toWebhook(url, { config: { url, path: "x" } }), "config.path"],
    ["a URL of another kind", toWebhook("ftp://example.com"), "config.url"],
    ["a URL with a password", toWebhook("https://user:password@example.com"), "config.url"],
    [
      "a header that says how the request is carried",
      toWebhook(url, { config: { url, headers: { host: "x" } } }),
      "config.headers.host",
    ],
    ["a config of more than 64 KiB", toWebhook(url, { config: { url, headers: largeHeaders } }), "config"],
    [
      "credentials that the integration does not know",
      toWebhook(url, { credentials: { token: "t" } }),
      "credentials.token",
    ],
    ["credentials of more than 32 KiB", toWebhook(url, { credentials: { headers: largeHeaders } }), "credentials"],
    ["an environment that is too long", toWebhook(url, { environment: "e".repeat(51) }), "environment"],
    ["a name that is too long", toWebhook(url, { name: "n".repeat(256) }), "name"],
  ] as const) {
    it(`are not made with ${what}`, async () => {
      const { id } = await server.secret();

      const { status, body: answer } = await links.post(id, body);

      expect(status).to.equal(400);
      expect(answer.error.code).to.equal("VALIDATION_ERROR");
      expect(answer.error.details.map((fault: { field: string }) => fault.field)).to.deep.equal([field]);
      expect((await server.admin.rest("GET", linksPath(id))).body.data).to.deep.equal([]);
    });
  }

  it("of an unknown integration are refused with the ones that there are", async () => {
    const { id } = await server.secret();

    const { body } = await links.post(id, { integration: "ftp", config: {} });

    expect(body.error.details[0].message).to.include("webhook");
  });

  it("do not lead to the same place twice, however that is written", async () => {
    const link = await links.of(toWebhook("https://hooks.example.com/a"));

    const { status, body } = await links.post(link.secret_id, toWebhook("https://HOOKS.example.com:443/b/../a"));

    expect(status).to.equal(409);
    expect(body.error.details[0].field).to.equal("config");
    expect((await links.post(link.secret_id, toWebhook("https://hooks.example.com/b"))).status).to.equal(201);
    expect((await links.put(link, { config: { url: "https://hooks.example.com/b" } })).status).to.equal(409);
    expect(await links.of(toWebhook("https://hooks.example.com/a"))).to.include({ status: "pending" });
  });
});

describe("The hundredth link of a secret", () => {
  it("is the last one", async () => {
    const { id } = await server.secret();
    const places = Array.from({ length: 100 }, (_, number) => toWebhook(`${url}/${number}`, { sync_enabled: false }));
    for (const place of places) expect(await links.post(id, place)).to.include({ status: 201 });

    const { status, body } = await links.post(id, toWebhook(`${url}/more`));

    expect(status).to.equal(409);
    expect(body.error.message).to.equal("a secret has at most 100 links");
  });
});

describe("An update of a link", () => {
  it("changes what is mentioned and nothing else", async () => {
    const link = await links.of(
      toWebhook(url, { name: "one", environment: "eu", credentials: { signing_secret: "s" } }),
    );

    const { status, body } = await links.put(link, { name: "two" });

    expect(status).to.equal(200);
    expect(body).to.deep.equal({ ...link, name: "two", updated_at: body.updated_at });
    expect(body.updated_at > link.updated_at).to.equal(true);
  });

  it("takes away what is null", async () => {
    const link = await links.of(
      toWebhook(url, { name: "one", environment: "eu", credentials: { signing_secret: "s" } }),
    );

    const { body } = await links.put(link, { name: null, environment: null, credentials: null });

    expect(body).to.deep.include({ name: "", environment: null, has_credentials: false });
  });

  it("that changes nothing leaves updated_at as it is", async () => {
    const link = await links.of(toWebhook(url, { name: "one" }));

    expect((await links.put(link, {})).body).to.deep.equal(link);
    expect((await links.put(link, { name: "one", config: { url }, sync_enabled: true })).body).to.deep.equal(link);
  });

  it("checks a new config as that of a new link", async () => {
    const link = await links.of(toWebhook(url));

    const { status, body } = await links.put(link, { config: { url: "x" } });

    expect(status).to.equal(400);
    expect(body.error.details[0].field).to.equal("config.url");
    expect(await links.get(link)).to.deep.equal(link);
  });

  it("does not have kept credentials sent to another host", async () => {
    const link = await links.of(toWebhook(url, { credentials: { signing_secret: "s" } }));
    const elsewhere = { url: "https://elsewhere.example.com/" };

    const { status, body } = await links.put(link, { config: elsewhere });
    const again = await links.put(link, { config: elsewhere, credentials: { signing_secret: "t" } });

    expect(status).to.equal(400);
    expect(body.error.details[0].field).to.equal("credentials");
    expect(again.status).to.equal(200);
    expect(again.body).to.deep.include({ config: { ...elsewhere, headers: {} }, has_credentials: true });
  });

  it("does not have kept credentials sent in the clear", async () => {
    const link = await links.of(toWebhook("https://example.com/", { credentials: { signing_secret: "s" } }));

    const { status, body } = await links.put(link, { config: { url: "http://example.com/" } });

    expect(status).to.equal(400);
    expect(body.error.details[0].field).to.equal("credentials");
  });

  it("does not change of what integration it is", async () => {
    const link = await links.of(toWebhook(url));

    const { body } = await links.put(link, { integration: "vault-kv" });

    expect(body.integration).to.equal("webhook");
  });
});

describe("A deleted link", () => {
  it("is gone, and frees its place", async () => {
    const link = await links.of(toWebhook(url));

    const { status } = await links.delete(link);

    expect(status).to.equal(204);
    expect((await links.delete(link)).status).to.equal(404);
    expect((await server.admin.rest("GET", linksPath(link.secret_id, link.id))).status).to.equal(404);
    expect((await links.post(link.secret_id, toWebhook(url))).status).to.equal(201);
  });
});

describe("Whatever names a link", () => {
  const requests = [
    ["GET", ""],
    ["POST", ""],
    ["GET", "/:id"],
    ["PUT", "/:id"],
    ["DELETE", "/:id"],
    ["DELETE", "/:id?purge=true"],
  ] as const;
  const statuses = async (by: typeof server.admin, secretId: string, linkId: string) => {
    const found: number[] = [];
    for (const [method, path] of requests) {
      const body = method === "POST" || method === "PUT" ? toWebhook(`${url}/new`) : undefined;
      found.push((await by.rest(method, `${linksPath(secretId)}${path.replace(":id", linkId)}`, body)).status);
    }
    return found;
  };

  it("finds nothing of another organization", async () => {
    const link = await links.of(toWebhook(url));
    const { admin } = await server.otherOrganization();

    expect(await statuses(admin, link.secret_id, link.id)).to.deep.equal(requests.map(() => 404));
    expect(await links.get(link)).to.deep.equal(link);
  });

  it("finds nothing by the id of another secret", async () => {
    const link = await links.of(toWebhook(url));
    const { id } = await server.secret();

    expect((await server.admin.rest("GET", linksPath(id, link.id))).status).to.equal(404);
    expect((await server.admin.rest("PUT", linksPath(id, link.id), { name: "x" })).status).to.equal(404);
    expect((await server.admin.rest("DELETE", linksPath(id, link.id))).status).to.equal(404);
  });

  it("finds nothing that does not exist", async () => {
    const { secret_id } = await links.of(toWebhook(url));

    expect((await server.admin.rest("GET", linksPath(secret_id, randomUUID()))).status).to.equal(404);
    expect((await server.admin.rest("GET", linksPath(secret_id, "no-uuid"))).status).to.equal(404);
    expect((await links.post(randomUUID(), toWebhook(url))).status).to.equal(404);
  });

  for (const [state, method, path] of [
    ["archived", "POST", "/archive"],
    ["deleted", "DELETE", ""],
  ] as const) {
    it(`finds nothing while the secret is ${state}, and all of it when it is restored`, async () => {
      const link = await links.of(toWebhook(url));
      const secret = `/api/v1/secrets/${link.secret_id}`;
      await server.admin.rest(method, `${secret}${path}`, method === "POST" ? {} : undefined);

      expect(await statuses(server.admin, link.secret_id, link.id)).to.deep.equal(requests.map(() => 404));
      await server.admin.rest("POST", `${secret}/restore`, {});

      expect(await links.get(link)).to.deep.equal(link);
    });
  }

  it("asks for rotation:read or rotation:write in the project of the secret", async () => {
    const link = await links.of(toWebhook(url));
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "beside" });
    const { body: reads } = await server.admin.rest("POST", "/api/v1/roles", {
      name: "reads-rotation",
      permissions: ["rotation:read"],
    });
    const { body: writes } = await server.admin.rest("POST", "/api/v1/roles", {
      name: "writes-rotation",
      permissions: ["rotation:write"],
    });
    const at = (project_id: string, role: string) => ({ projectRoles: [{ project_id, role }] });
    const reader = await server.as("reader", at(server.projectId, reads.name));
    const writer = await server.as("writer", at(server.projectId, writes.name));
    const outsider = await server.as("outsider", at(project.id, writes.name));

    expect(await statuses(reader, link.secret_id, link.id)).to.deep.equal([200, 403, 200, 403, 403, 403]);
    expect(await statuses(outsider, link.secret_id, link.id)).to.deep.equal(requests.map(() => 403));
    expect((await statuses(writer, link.secret_id, link.id)).slice(0, 5)).to.deep.equal([403, 201, 403, 409, 204]);
  });
});

describe("What is done to links", () => {
  it("is recorded as about the link, with its secret", async () => {
    const link = await links.of(toWebhook(url));
    await links.put(link, { name: "x" });
    await links.delete(link);

    const events = await server.sql(
      `select action, resource_type, resource_id, details::jsonb as details from audit_event
       where details::jsonb ->> 'secret_id' = $1 order by occurred_at, id`,
      [link.secret_id],
    );

    expect(events).to.deep.equal(
      ["link.create", "link.update", "link.delete"].map((action) => ({
        action,
        resource_type: "link",
        resource_id: link.id,
        details: { secret_id: link.secret_id, integration: "webhook" },
      })),
    );
  });
});
