import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { purgeJob } from "../../src/server/agents/purge.ts";
import { foundKeytab, Host } from "../harness/host.ts";
import { newKeytab } from "../harness/keytabs.ts";
import { randomFrom } from "../harness/random.ts";
import { useServer } from "../harness/server.ts";
import { findHalfImports } from "./half-imports.ts";
import { ServerProcess } from "./server-process.ts";

const rounds = 25;
const hostsAtOnce = 3;
const newFilesOnEach = 4;
/** From the first request to the kill. */
const longestMs = 300;
const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

/** A file on a host, as it was reported. */
interface ReportedFile {
  readonly id: string;
  readonly bytes: Buffer;
}

describe("A server that is killed while files are imported from hosts, again and again", () => {
  const server = useServer({ KEYTAB_ENABLED: "true", LOG_LEVEL: "warn" });
  const random = randomFrom(seed);
  const files = new Map<Host, Map<string, Buffer>>();
  before(async () => {
    for (let n = 0; n < hostsAtOnce; n += 1) files.set(await Host.enroll(server), new Map());
  });
  after(() => {
    for (const host of files.keys()) host.close();
  });

  async function reportNewFiles(round: number): Promise<ReportedFile[]> {
    const reported: ReportedFile[] = [];
    for (const [host, onHost] of files) {
      const paths = Array.from({ length: newFilesOnEach }, (_, n) => `/etc/${round}/${n}.keytab`);
      for (const path of paths) onHost.set(path, newKeytab());
      const bytesAt = (path: string) => onHost.get(path) as Buffer;
      await host.report(
        paths.map((path) => foundKeytab(path, bytesAt(path))),
        { complete: false },
      );
      const rows = await server.sql(
        "select id, file_path from discovered_keytab where agent_id = $1 and file_path = any($2)",
        [host.id, paths],
      );
      reported.push(...rows.map(({ id, file_path }) => ({ id, bytes: bytesAt(file_path) })));
    }
    return reported;
  }

  /** Imports all at once at a server whose agents answer; answers the statuses, of which some may never have come. */
  async function importAll(
    url: string,
    reported: readonly ReportedFile[],
    meanwhile = async () => {},
  ): Promise<(number | undefined)[]> {
    const client = await server.login(server.clientId, server.clientSecret, url);
    const agents = [...files].map(([host, onHost]) => ({ host: host.at(url), onHost }));
    for (const { host, onHost } of agents) {
      await host.heartbeat();
      host.answerUploads(onHost);
    }
    const answers = reported.map(({ id }) =>
      client.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {}).then(
        ({ status }) => status,
        () => undefined,
      ),
    );
    await meanwhile();
    const statuses = await Promise.all(answers);
    for (const { host } of agents) host.close();
    return statuses;
  }

  /** The id of the keytab that manages each file. */
  async function keytabsOf(reported: readonly ReportedFile[]): Promise<(string | undefined)[]> {
    const rows = await server.sql(
      `select f.id, k.id as keytab from discovered_keytab f join keytab k on k.id = f.managed_keytab_id
       where f.id = any($1)`,
      [reported.map(({ id }) => id)],
    );
    const keytabs = new Map(rows.map(({ id, keytab }) => [id, keytab]));
    return reported.map(({ id }) => keytabs.get(id));
  }

  async function expectBytes(reported: readonly ReportedFile[]): Promise<void> {
    const keytabs = await keytabsOf(reported);
    for (const [n, { bytes }] of reported.entries()) {
      const { status, body } = await server.admin.rest("GET", `/api/v1/keytabs/${keytabs[n]}/download`);
      expect(status).to.equal(200);
      expect(bytes.equals(body)).to.equal(true);
    }
  }

  it("has made of each file a managed keytab with its record, or nothing, and imports the others next", async () => {
    const environment = { ...server.environment(), SERVICE_LOG_LEVEL: "info" };
    let killed = new ServerProcess(environment);
    const told = { acknowledged: 0, unanswered: 0, "imported all the same": 0 };
    try {
      for (let round = 0; round < rounds; round += 1) {
        const process = killed;
        const reported = await reportNewFiles(round);
        const statuses = await importAll(await process.ready(), reported, async () => {
          await sleep(random() * longestMs);
          await process.kill();
        });
        killed = new ServerProcess(environment);
        const url = await killed.ready();
        const keytabs = await keytabsOf(reported);
        const halves = await findHalfImports(server);
        const again = await importAll(url, reported);

        expect(halves).to.deep.equal([]);
        expect(statuses.filter((status) => status !== 201 && status !== undefined)).to.deep.equal([]);
        expect(statuses.filter((status, n) => status === 201 && keytabs[n] === undefined)).to.deep.equal([]);
        expect(again).to.deep.equal(keytabs.map((keytab) => (keytab === undefined ? 201 : 409)));
        expect(await findHalfImports(server)).to.deep.equal([]);
        await expectBytes(reported);
        told.acknowledged += statuses.filter((status) => status === 201).length;
        told.unanswered += statuses.filter((status) => status === undefined).length;
        told["imported all the same"] += statuses.filter((status, n) => status === undefined && keytabs[n]).length;
      }
    } finally {
      await killed.kill();
    }

    console.log(`      HOLDFAST_TEST_SEED=${seed}: ${JSON.stringify(told)}`);
    expect(Math.min(told.acknowledged, told.unanswered)).to.be.above(0);
  });

  it("leaves nothing of what agents sent to it once the commands are purged", async () => {
    const left = "select id from agent_command union all select record_id from data_key where record_id = any($1)";
    const commands = await server.sql("select id from agent_command");
    const uploads = await server.sql("select from agent_command where upload is not null");
    await server.sql("update agent_command set expires_at = now() - interval '6 minutes'");

    await purgeJob(server.server.core).run({});

    console.log(`      ${commands.length} commands, of which ${uploads.length} had a file that nobody took`);
    expect(await server.sql(left, [commands.map(({ id }) => id)])).to.deep.equal([]);
    expect(await findHalfImports(server)).to.deep.equal([]);
  });
});
