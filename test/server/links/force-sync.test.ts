import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { answers } from "../../harness/trouble.ts";
import { Links, toWebhook } from "./links.ts";

const server = useServer();
const links = new Links(server);

const url = (name: string) => `https://hooks.example.com/${name}`;
const statusOf = async (id: string, by = server.admin) => by.rest("GET", `/api/v1/secrets/${id}/sync-status`);
const force = (id: string, environment?: string, by = server.admin) => {
  const path = environment === undefined ? "" : `/environments/${encodeURIComponent(environment)}`;
  return by.rest("POST", `/api/v1/secrets/${id}${path}/force-sync`, {});
};

describe("The sync status of a secret", () => {
  it("is without targets when there are no links", async () => {
    const { id } = await server.secret();

    expect((await statusOf(id)).body).to.deep.equal({ id, sync_enabled: false, targets: [] });
  });

  it("says of each link how far it is, in its own environment or else that of the secret", async () => {
    const own = await links.of(toWebhook(url("own"), { name: "own", environment: "eu" }), {
      environment: "production",
    });
    const { body: follows } = await links.post(own.secret_id, toWebhook(url("follows"), { sync_enabled: false }));

    const { status, body } = await statusOf(own.secret_id);

    expect(status).to.equal(200);
    const fresh = { last_synced: null, version: null, integration: "webhook", last_error: null };
    expect(body).to.deep.equal({
      id: own.secret_id,
      sync_enabled: true,
      targets: [
        { ...fresh, target_id: own.id, status: "pending", name: "own", environment: "eu" },
        { ...fresh, target_id: follows.id, status: "disabled", name: "", environment: "production" },
      ],
    });
  });

  it("is not enabled when no link is", async () => {
    const link = await links.of(toWebhook(url("off"), { sync_enabled: false }));

    expect((await statusOf(link.secret_id)).body.sync_enabled).to.equal(false);
  });

  it("is told to whoever has rotation:read, in the same organization", async () => {
    const { id } = await server.secret();
    const { body: role } = await server.admin.rest("POST", "/api/v1/roles", {
      name: "writes-only",
      permissions: ["rotation:write", "secret:write"],
    });
    const writer = await server.as("writer", [role.name]);
    const { admin } = await server.otherOrganization();

    expect((await statusOf(id, writer)).status).to.equal(403);
    expect((await statusOf(id, admin)).status).to.equal(404);
    expect((await statusOf(randomUUID())).status).to.equal(404);
  });
});

describe("Forcing the sync of a secret", () => {
  it("answers the status, how many are queued, and when it was asked for", async () => {
    const link = await links.of(toWebhook(url("a")));
    await links.post(link.secret_id, toWebhook(url("b")));
    await links.post(link.secret_id, toWebhook(url("c"), { sync_enabled: false }));

    const { status, body } = await force(link.secret_id);

    const { body: read } = await statusOf(link.secret_id);
    expect(status).to.equal(200);
    expect(body).to.deep.equal({ ...read, queued: 2, requested_at: body.requested_at });
    expect(body.targets.map((target: { status: string }) => target.status)).to.deep.equal([
      "pending",
      "pending",
      "disabled",
    ]);
    expect(Date.parse(body.requested_at)).to.be.closeTo(Date.now(), 60_000);
  });

  it("queues nothing where there is nothing", async () => {
    const { id } = await server.secret();

    const { status, body } = await force(id);

    expect(status).to.equal(200);
    expect(body).to.deep.include({ queued: 0, targets: [], sync_enabled: false });
  });

  it("of one environment concerns the links of that environment, or of none where the secret is of it", async () => {
    const eu = await links.of(toWebhook(url("eu"), { environment: "eu west" }), { environment: "production" });
    const { body: follows } = await links.post(eu.secret_id, toWebhook(url("follows")));
    await links.post(eu.secret_id, toWebhook(url("off"), { environment: "eu west", sync_enabled: false }));
    const targetsOf = (body: { targets: { target_id: string }[] }) => body.targets.map(({ target_id }) => target_id);

    const west = await force(eu.secret_id, "eu west");
    const production = await force(eu.secret_id, "production");
    const other = await force(eu.secret_id, "Production");

    expect(west.body).to.deep.include({ environment: "eu west", queued: 1 });
    expect(targetsOf(west.body)).to.have.length(2).and.to.include(eu.id);
    expect(production.body).to.deep.include({ environment: "production", queued: 1 });
    expect(targetsOf(production.body)).to.deep.equal([follows.id]);
    expect(other.status).to.equal(200);
    expect(other.body).to.deep.include({ environment: "Production", queued: 0, targets: [] });
  });

  it("of an environment with a longer name than there can be is refused", async () => {
    const { id } = await server.secret();

    const { status, body } = await force(id, "e".repeat(51));

    expect(status).to.equal(400);
    expect(body.error.details[0].field).to.equal("environment");
  });

  it("asks for secret:write in the project of the secret", async () => {
    const { id } = await server.secret();
    const { body: role } = await server.admin.rest("POST", "/api/v1/roles", {
      name: "rotation-only",
      permissions: ["rotation:write", "rotation:read", "secret:read"],
    });
    const rotator = await server.as("rotator", [role.name]);
    const { admin } = await server.otherOrganization();

    expect((await force(id, undefined, rotator)).status).to.equal(403);
    expect((await force(id, "eu", rotator)).status).to.equal(403);
    expect((await force(id, undefined, admin)).status).to.equal(404);
    expect((await force(id, "eu", admin)).status).to.equal(404);
  });

  it("is recorded with how many were queued", async () => {
    const link = await links.of(toWebhook(url("a")));

    await force(link.secret_id);
    await force(link.secret_id, "eu");

    const events = await server.sql(
      `select details::jsonb as details from audit_event where action = 'secret.force_sync' and resource_id = $1
       order by occurred_at, id`,
      [link.secret_id],
    );
    expect(events.map(({ details }) => details)).to.deep.equal([{ queued: 1 }, { queued: 0, environment: "eu" }]);
  });

  describe("where there is a worker", () => {
    links.useWorker(50);

    it("does not wait for what a failed target waits for, and counts its failures anew", async () => {
      const place = await links.receiver();
      place.behave(() => answers(500));
      const link = await links.of(toWebhook(place.url()));
      await links.failed(link);
      await server.sql("update secret_link set due_at = now() + interval '1 hour', failures = 9 where id = $1", [
        link.id,
      ]);

      await force(link.secret_id);
      await place.received(2);
      await links.failed(link);

      const [{ failures }] = await server.sql("select failures from secret_link where id = $1", [link.id]);
      expect(failures).to.equal(1);
    });

    it("counts a target once that is being written, and has it written again after", async () => {
      const place = await links.receiver();
      const { promise: release, resolve } = Promise.withResolvers<undefined>();
      place.behave(() => release);
      const link = await links.of(toWebhook(place.url()));
      await place.received(1);

      const { body } = await force(link.secret_id);
      await force(link.secret_id);
      resolve(undefined);

      expect(body.queued).to.equal(1);
      expect(body.targets[0].status).to.equal("syncing");
      await place.received(2);
      await links.synced(link);
      expect(place.requests).to.have.length(2);
    });

    it("has a target tried again at once that fails while it is asked for", async () => {
      const place = await links.receiver();
      const { promise: release, resolve } = Promise.withResolvers<ReturnType<typeof answers>>();
      place.behave(() => release);
      const link = await links.of(toWebhook(place.url()));
      await place.received(1);

      await force(link.secret_id);
      place.behave();
      resolve(answers(500));

      await links.synced(link);
      expect(await links.attempts(link)).to.deep.equal(["failure 1", "success 1"]);
    });
  });
});
