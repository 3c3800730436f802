import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { survivors } from "../../engines/running.ts";
import { until } from "../../faults/own-engines.ts";
import { ServerProcess } from "../../faults/server-process.ts";
import { Client } from "../../harness/client.ts";
import { cloneDatabase, databaseUrl, dropDatabase } from "../../harness/databases.ts";
import { startRewrap } from "./rewrapping.ts";

const key = randomBytes(32).toString("base64");

describe("Rewrapping on the host of a server", function () {
  // A process takes a second to start, and several on a busy machine.
  this.timeout(60_000);

  describe("with a data folder", () => {
    let folder: string;
    let server: ServerProcess;
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), "holdfast-admin-"));
      await chmod(folder, 0o711);
    });
    after(async () => {
      await server?.kill();
      expect(await survivors(folder)).to.deep.equal([]);
      await rm(folder, { recursive: true, force: true });
    });

    const generated = () => join(folder, ".holdfast/master.key");
    const start = async (settings: Record<string, string> = {}) => {
      const ports = { SERVICE_PORT: "0", SERVICE_OCSP_PORT: "0" };
      server = new ServerProcess({ ...ports, SERVICE_DATA_DIR: join(folder, ".holdfast"), ...settings });
      return server.ready();
    };
    const stop = async () => {
      server.signal("SIGTERM");
      await server.ended;
    };
    /** With the defaults that the folder of the server gives. */
    const rewrap = (settings: Record<string, string>) => startRewrap(settings, folder).ended;

    it("goes from the generated key to one's own, beside the server, and the generated one may go", async () => {
      const url = await start();
      await until(() => server.stdout.includes("HOLDFAST_CLIENT_SECRET"));
      const [, projectId, client_id, client_secret] =
        /PROJECT_ID=(\S+)[^]*CLIENT_ID=(\S+)[^]*CLIENT_SECRET=(\S+)/.exec(server.stdout) ?? [];
      const login = async (at: string) => {
        const credentials = { client_id, client_secret };
        const { body } = await new Client(at, undefined).rest("POST", "/api/v1/auth/universal-auth/login", credentials);
        return new Client(at, body.access_token);
      };
      const secret = { key: "k", value: "kept", project_id: projectId };
      const { body: made } = await (await login(url)).rest("POST", "/api/v1/secrets", secret);
      await stop();

      const amid = await login(await start({ SERVICE_MASTER_KEY: key, SERVICE_MASTER_KEY_PREVIOUS_FILE: generated() }));
      const { summary } = await rewrap({
        SERVICE_MASTER_KEY: key,
        SERVICE_MASTER_KEY_PREVIOUS_FILE: ".holdfast/master.key",
      });
      const { body: readAmid } = await amid.rest("GET", `/api/v1/secrets/${made.id}`);
      await stop();
      await rm(generated());
      const after = await login(await start({ SERVICE_MASTER_KEY: key }));
      const { body: readAfter } = await after.rest("GET", `/api/v1/secrets/${made.id}`);
      await stop();

      expect(summary?.unopened).to.equal(0);
      expect(summary?.rewrapped).to.be.above(3);
      expect([readAmid.value, readAfter.value]).to.deep.equal(["kept", "kept"]);
    });

    it("starts the database itself where no server runs", async () => {
      const { summary } = await rewrap({ SERVICE_MASTER_KEY: key });

      expect(summary).to.include({ rewrapped: 0, unopened: 0 });
      expect(summary?.total).to.be.above(3);
      expect(await survivors(folder)).to.deep.equal([]);
    });

    it("makes no key in place of one that is gone", async () => {
      const { refused } = await rewrap({});

      expect(refused).to.equal("SERVICE_MASTER_KEY is needed: there is no .holdfast/master.key");
    });

    it("refuses a folder without a database", async () => {
      const nowhere = join(folder, "nowhere");

      const { refused } = await rewrap({ SERVICE_MASTER_KEY: key, SERVICE_DATA_DIR: nowhere });

      expect(refused).to.equal(`there is no database in ${nowhere}; set SERVICE_DATA_DIR`);
    });
  });

  describe("with a database", () => {
    const rewrap = async (url: string) => {
      const urls = { SERVICE_DATABASE_URL: url, SERVICE_REDIS_URL: "redis://127.0.0.1:1" };
      return startRewrap({ ...urls, SERVICE_MASTER_KEY: key }).ended;
    };

    it("has nothing to do in one that no server has sealed anything in", async () => {
      const url = await cloneDatabase();

      const { summary, steps } = await rewrap(url);
      await dropDatabase(url);

      expect(summary).to.deep.equal({ rewrapped: 0, total: 0, unopened: 0, examples: [] });
      expect(steps).to.deep.equal([]);
    });

    it("says in one line that it is not there, or empty", async () => {
      const [away, empty] = [await rewrap("postgresql://u:p@127.0.0.1:1/d"), await rewrap(databaseUrl("postgres"))];

      expect(away.refused).to.equal("SERVICE_DATABASE_URL: the database cannot be reached (ECONNREFUSED)");
      expect(empty.refused).to.equal("the database is empty; start the server on it first");
    });
  });
});
