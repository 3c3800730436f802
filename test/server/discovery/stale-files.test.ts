import { randomUUID, randomUUIDv7 } from "node:crypto";
import { expect } from "chai";
import { stalenessJob } from "../../../src/server/discovery/staleness.ts";
import { Host } from "../../harness/host.ts";
import { useServer } from "../../harness/server.ts";
import { recordOf, someFile, statesOf } from "./files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
let host: Host;

beforeEach(async () => {
  host = await Host.enroll(server);
});
afterEach(() => host.close());

const states = () => statesOf(server.admin, host);
const staleOnes = async () =>
  Object.entries(await states())
    .filter(([, state]) => state === "stale")
    .map(([path]) => path)
    .toSorted();
const agent = async () => (await server.admin.rest("GET", `/api/v1/agents/${host.id}`)).body;

/** An id of version 7 of a scan that began so many milliseconds ago. */
function scanBegunAgo(ms: number): string {
  const time = (Date.now() - ms).toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}${randomUUIDv7().slice(13)}`;
}

describe("A complete scan", () => {
  it("makes stale what it did not find where it looked, and counts that", async () => {
    await host.report([someFile("/etc/kept"), someFile("/etc/gone"), someFile("/etc/apache2/gone")]);

    const answer = await host.report([someFile("/etc/kept")]);

    expect(answer.stale).to.equal(2);
    expect(await states()).to.deep.equal({
      "/etc/kept": "discovered",
      "/etc/gone": "stale",
      "/etc/apache2/gone": "stale",
    });
  });

  it("counts a file as stale once", async () => {
    await host.report([someFile("/etc/gone")]);
    await host.report([]);

    expect((await host.report([])).stale).to.equal(0);
  });

  it("keeps what else is known of what is gone", async () => {
    await host.report([someFile("/etc/gone", { filePermissions: "0604" })]);
    const before = await recordOf(server.admin, host);

    await host.report([]);

    expect(await recordOf(server.admin, host)).to.deep.equal({ ...before, state: "stale", instances: 0 });
  });

  const places: readonly { roots: string[]; stale: string[]; why: string }[] = [
    { roots: [], stale: [], why: "no place covers nothing" },
    { roots: ["/etc/krb5.keytab"], stale: ["/etc/krb5.keytab"], why: "a file covers itself" },
    { roots: ["/opt"], stale: ["/opt/a/b.keytab"], why: "a folder covers what is below it" },
    { roots: ["/opt/"], stale: ["/opt/a/b.keytab"], why: "a folder is one with a slash at its end too" },
    { roots: ["/opt/a"], stale: ["/opt/a/b.keytab"], why: "a folder within another place covers its part" },
    { roots: ["/op"], stale: [], why: "the beginning of a name is no folder" },
    { roots: ["/opt/_"], stale: [], why: "a name is no pattern" },
    { roots: ["/etc/*.keytab"], stale: ["/etc/http.keytab"], why: "a pattern covers what was found by it" },
    { roots: ["/var/link"], stale: ["/data/real.keytab"], why: "a link covers what was found behind it" },
    {
      roots: ["/"],
      stale: ["/data/real.keytab", "/etc/http.keytab", "/etc/krb5.keytab", "/opt/a/b.keytab"],
      why: "the uppermost folder covers all",
    },
  ];
  for (const { roots, stale, why } of places) {
    it(`of ${roots.join(", ") || "nothing"}: ${why}`, async () => {
      await host.report([
        someFile("/etc/krb5.keytab", { root: "/etc/krb5.keytab" }),
        someFile("/etc/http.keytab", { root: "/etc/*.keytab" }),
        someFile("/opt/a/b.keytab", { root: "/opt" }),
        someFile("/data/real.keytab", { root: "/var/link" }),
      ]);

      const answer = await host.report([], { roots });

      expect(await staleOnes()).to.deep.equal(stale);
      expect(answer.stale).to.equal(stale.length);
    });
  }

  const unreadable: readonly { errors: string[]; stale: string[]; why: string }[] = [
    { errors: ["/srv/a"], stale: ["/data/real.keytab", "/srv/b/c.keytab"], why: "a folder and what is below it" },
    { errors: ["/srv/a/b.keytab"], stale: ["/data/real.keytab", "/srv/b/c.keytab"], why: "a file" },
    { errors: ["/srv/a/b"], stale: ["/data/real.keytab", "/srv/a/b.keytab", "/srv/b/c.keytab"], why: "nothing else" },
    { errors: ["/srv"], stale: ["/data/real.keytab"], why: "a whole place" },
    { errors: ["/var/link"], stale: ["/srv/a/b.keytab", "/srv/b/c.keytab"], why: "what a link leads to" },
    { errors: ["/var"], stale: ["/srv/a/b.keytab", "/srv/b/c.keytab"], why: "what the way there leads by" },
    { errors: ["/srv/b", "/var/link"], stale: ["/srv/a/b.keytab"], why: "each of several" },
    { errors: ["/"], stale: [], why: "everything" },
  ];
  for (const { errors, stale, why } of unreadable) {
    it(`that could not read ${errors.join(", ")} spares ${why}`, async () => {
      await host.report([
        someFile("/srv/a/b.keytab", { root: "/srv" }),
        someFile("/srv/b/c.keytab", { root: "/srv" }),
        someFile("/data/real.keytab", { root: "/var/link" }),
      ]);

      await host.report([], {
        roots: ["/srv", "/var/link"],
        errors: errors.map((path) => ({ path, reason: "permission denied" })),
      });

      expect(await staleOnes()).to.deep.equal(stale);
    });
  }

  it("spares what an earlier part of it could not read", async () => {
    await host.report([someFile("/etc/a/gone"), someFile("/etc/b/gone")]);
    const scanId = randomUUID();

    await host.report([], { scanId, complete: false, errors: [{ path: "/etc/a", reason: "permission denied" }] });
    await host.report([], { scanId, errors: [{ path: "/etc/c", reason: "permission denied" }] });

    expect(await staleOnes()).to.deep.equal(["/etc/b/gone"]);
  });

  it("leaves what was found in earlier parts of it", async () => {
    const files = ["/etc/a", "/etc/b", "/etc/c"].map((path) => someFile(path));
    await host.report(files);
    const scanId = randomUUID();

    for (const file of files.slice(0, 2)) await host.report([file], { scanId, complete: false });
    await host.report([], { scanId });

    expect(await staleOnes()).to.deep.equal(["/etc/c"]);
  });

  it("is noted with the agent, with a hundred of its errors", async () => {
    const before = await agent();
    const errors = Array.from({ length: 150 }, (_, index) => ({ path: `/etc/${index}`, reason: "permission denied" }));

    await host.report([], { errors });

    const after = await agent();
    expect(before).to.deep.include({ last_scan_at: null, scan_errors: [] });
    expect(after.last_scan_at).to.match(/Z$/);
    expect(after.scan_errors).to.deep.equal(errors.slice(0, 100));
  });

  it("leaves the files of other agents", async () => {
    const beside = await Host.enroll(server);
    await beside.report([someFile("/etc/theirs")]);

    await host.report([]);

    expect(await statesOf(server.admin, beside)).to.deep.equal({ "/etc/theirs": "discovered" });
    beside.close();
  });
});

describe("A scan that did not end", () => {
  it("makes nothing stale", async () => {
    await host.report([someFile("/etc/a"), someFile("/etc/b")]);

    const answer = await host.report([someFile("/etc/a")], { complete: false });

    expect(answer.stale).to.equal(0);
    expect(await staleOnes()).to.deep.equal([]);
    expect((await agent()).scan_errors).to.deep.equal([]);
  });

  it("is made good by the next one that does", async () => {
    await host.report([someFile("/etc/a"), someFile("/etc/b")]);
    await host.report([someFile("/etc/c")], { complete: false });

    await host.report([someFile("/etc/b")]);

    expect(await staleOnes()).to.deep.equal(["/etc/a", "/etc/c"]);
  });
});

describe("A part that comes late, when a later scan is complete", () => {
  const [earlier, later] = [() => scanBegunAgo(60_000), () => scanBegunAgo(30_000)];

  it("makes nothing stale that the later scan found", async () => {
    await host.report([someFile("/etc/new")], { scanId: later() });

    const answer = await host.report([], { scanId: earlier() });

    expect(answer.stale).to.equal(0);
    expect(await staleOnes()).to.deep.equal([]);
  });

  it("brings nothing back that the later scan missed", async () => {
    const file = someFile("/etc/gone");
    await host.report([file], { scanId: scanBegunAgo(90_000) });
    await host.report([], { scanId: later() });

    await host.report([file], { scanId: earlier() });

    expect(await staleOnes()).to.deep.equal(["/etc/gone"]);
  });

  it("does not say what the file was before", async () => {
    const [was, is] = [someFile("/etc/a"), someFile("/etc/a")];
    await host.report([is], { scanId: later() });

    const answer = await host.report([was], { scanId: earlier() });

    expect(answer.changed).to.equal(0);
    expect((await recordOf(server.admin, host)).keytab_hash).to.equal(is.keytabHash);
  });

  it("spares nothing from the later scan, which is sent again", async () => {
    const scanId = later();
    await host.report([someFile("/etc/kept"), someFile("/etc/a")], { scanId: scanBegunAgo(90_000) });
    await host.report([someFile("/etc/kept")], { scanId });

    await host.report([], { scanId: earlier(), complete: false, errors: [{ path: "/etc", reason: "denied" }] });
    await host.report([], { scanId });

    expect(await staleOnes()).to.deep.equal(["/etc/a"]);
  });
});

describe("A host whose clock was set back", () => {
  it("is believed", async () => {
    await host.report([someFile("/etc/gone"), someFile("/etc/kept")], { scanId: scanBegunAgo(-3_600_000) });

    await host.report([someFile("/etc/kept")], { scanId: scanBegunAgo(0) });

    expect(await staleOnes()).to.deep.equal(["/etc/gone"]);
  });
});

describe("A stale file that is reported again", () => {
  const path = "/etc/krb5.keytab";

  it("is discovered again, in any report", async () => {
    await host.report([someFile(path)]);
    await host.report([]);

    await host.report([someFile(path)], { complete: false });

    expect(await states()).to.deep.equal({ [path]: "discovered" });
  });

  it("is ignored again, for the reason it was", async () => {
    await host.report([someFile(path)]);
    const { id } = await recordOf(server.admin, host);
    await server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/ignore`, { reason: "a test machine" });
    await host.report([]);
    expect(await states()).to.deep.equal({ [path]: "stale" });

    await host.report([someFile(path)]);

    expect(await recordOf(server.admin, host)).to.include({ state: "ignored", ignored_reason: "a test machine" });
  });
});

describe("The files of an agent that is silent", () => {
  const job = () => stalenessJob(server.server.core).run({});
  const silentFor = (days: number, of = host) =>
    server.sql(
      `update agent set last_heartbeat = now() - make_interval(days => $2), created_at = now() - interval '1 year',
         last_scan_at = now() - make_interval(days => $2) where id = $1`,
      [of.id, days],
    );
  const events = () =>
    server.sql(
      `select organization_id, actor_type, resource_type, resource_name, outcome, details::jsonb from audit_event
       where action = 'agent.fall_silent' and resource_id = $1`,
      [host.id],
    );

  it("become stale after 7 days, which the system records once", async () => {
    await host.report([someFile("/etc/a"), someFile("/etc/b")]);
    await silentFor(8);

    await job();
    await job();

    expect(await states()).to.deep.equal({ "/etc/a": "stale", "/etc/b": "stale" });
    const [{ organization_id, last_heartbeat }] = await server.sql("select * from agent where id = $1", [host.id]);
    expect(await events()).to.deep.equal([
      {
        organization_id,
        actor_type: "system",
        resource_type: "agent",
        resource_name: host.hostname,
        outcome: "success",
        details: { stale: 2, last_contact: last_heartbeat.toISOString() },
      },
    ]);
  });

  it("stay as they are until then", async () => {
    await host.report([someFile("/etc/a")]);
    await silentFor(6);

    await job();

    expect(await staleOnes()).to.deep.equal([]);
    expect(await events()).to.deep.equal([]);
  });

  it("stay as they are while it reports, or calls, or has only just enrolled", async () => {
    await host.report([someFile("/etc/a")]);
    for (const column of ["last_heartbeat", "last_scan_at", "created_at"]) {
      await silentFor(30);
      await server.sql(`update agent set ${column} = now() where id = $1`, [host.id]);

      await job();

      expect(await staleOnes(), column).to.deep.equal([]);
    }
  });

  it("become stale too when it never called", async () => {
    await host.report([someFile("/etc/a")]);
    await server.sql(
      "update agent set last_heartbeat = null, last_scan_at = null, created_at = now() - interval '8 days' where id = $1",
      [host.id],
    );

    await job();

    expect(await staleOnes()).to.deep.equal(["/etc/a"]);
  });

  it("are back when it reports again", async () => {
    await host.report([someFile("/etc/a"), someFile("/etc/b")]);
    await silentFor(8);
    await job();

    await host.report([someFile("/etc/a")]);

    expect(await states()).to.deep.equal({ "/etc/a": "discovered", "/etc/b": "stale" });
  });

  it("become stale all of them, however many", async () => {
    const beside = await Host.enroll(server);
    for (let part = 0; part < 2; part += 1) {
      const files = Array.from({ length: 4000 }, (_, index) => someFile(`/srv/${part}/${index}`));
      await beside.report(files, { complete: false });
    }
    await silentFor(8, beside);

    await job();

    const [counted] = await server.sql(
      `select (select count(*)::int from discovered_keytab where agent_id = $1::uuid and not stale) as fresh,
         (select sum((details::jsonb->>'stale')::int)::int from audit_event
          where action = 'agent.fall_silent' and resource_id = $1::text) as recorded`,
      [beside.id],
    );
    expect(counted).to.deep.equal({ fresh: 0, recorded: 8000 });
    beside.close();
  });
});
