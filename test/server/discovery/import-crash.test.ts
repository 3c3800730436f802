import { expect } from "chai";
import { Client } from "../../harness/client.ts";
import { foundKeytab, Host } from "../../harness/host.ts";
import { newKeytab } from "../../harness/keytabs.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { recordOf } from "./files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const path = "/etc/krb5.keytab";
let host: Host;
let id: string;
const bytes = newKeytab();

beforeEach(async () => {
  host = await Host.enroll(server);
  await host.report([foundKeytab(path, bytes)]);
  id = (await recordOf(server.admin, host)).id;
});
afterEach(async () => {
  host.close();
  await server.sql("delete from discovered_keytab");
  await server.sql("delete from keytab");
});

const importFile = (by = server.admin) => by.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {});
const stored = async () =>
  (
    await server.sql(`select (select count(*)::int from keytab) as keytabs,
      (select count(*)::int from keytab_version) as versions,
      (select count(*)::int from agent_command where upload is not null) as uploads,
      (select count(*)::int from discovered_keytab where managed_keytab_id is not null) as links`)
  )[0];
const nothing = { keytabs: 0, versions: 0, uploads: 0, links: 0 };

describe("An import that ends halfway", () => {
  const points = [
    "insert on keytab",
    "insert on keytab_version",
    "update of managed_keytab_id on discovered_keytab",
    "insert on idempotency_record",
  ];
  for (const point of points) {
    it(`at the ${point} leaves neither a keytab nor a linked record, and can be repeated`, async () => {
      host.answerUploads(new Map([[path, bytes]]));
      await server.sql("create function fail() returns trigger language plpgsql as 'begin raise ''broken''; end'");
      await server.sql(`create trigger fail before ${point} for each row execute function fail()`);
      const key = { "idempotency-key": point.replaceAll(" ", "-") };
      const send = () => server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {}, key);

      const broken = await send();
      const between = await stored();
      await server.sql("drop function fail cascade");
      const repeated = await send();

      expect(broken.status).to.equal(500);
      expect(between).to.deep.equal(nothing);
      expect(repeated.status).to.equal(201);
      expect(await stored()).to.deep.equal({ keytabs: 1, versions: 1, uploads: 0, links: 1 });
    });
  }

  it("since the replica that waits is stopped leaves nothing, and can be repeated on another", async () => {
    const replica = await server.startReplica();
    const watch = host.watch();
    const waiting = importFile(new Client(urlOf(replica), server.admin.token)).catch((error: unknown) => error);
    for await (const { kind } of watch) if (kind.case === "uploadKeytab") break;

    await replica.stop(100);
    const answer = await waiting;
    const between = await stored();
    watch.cancel();
    host.answerUploads(new Map([[path, bytes]]));
    const repeated = await importFile();

    expect(answer).to.satisfy((each: unknown) => each instanceof Error || (each as { status: number }).status === 503);
    expect(between).to.deep.equal(nothing);
    expect((await recordOf(server.admin, host)).state).to.equal("imported");
    expect(repeated.status).to.equal(201);
  });

  it("since whoever asked has gone leaves a keytab with a linked record, or neither", async () => {
    const watch = host.watch();
    const gone = new AbortController();
    const waiting = fetch(`${server.url}/api/v1/keytabs/discovered/${id}/import`, {
      method: "POST",
      headers: { authorization: `Bearer ${server.admin.token}` },
      signal: gone.signal,
    }).catch((error: unknown) => error);
    for await (const { kind } of watch) {
      if (kind.case !== "uploadKeytab") continue;
      gone.abort();
      await waiting;
      // The server may hear of it after the answer: then the import is whole.
      await host.upload(kind.value.requestId, { case: "keytabData", value: bytes }).catch(() => {});
      break;
    }

    const { keytabs, versions, links } = await stored();
    expect([keytabs, versions, links]).to.satisfy((each: number[]) => new Set(each).size === 1);
  });
});
