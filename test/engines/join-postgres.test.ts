import { existsSync, mkdirSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Client } from "pg";
import { EngineError, joinPostgres, startEngines } from "../../src/engines/engines.ts";
import { type Holder, holdEngines } from "./held-engines.ts";
import { eventually, runningOn, survivors } from "./running.ts";
import { removeFolder, temporaryFolder } from "./temporary-folder.ts";

describe("joinPostgres", () => {
  let folder: string;
  let data: string;
  let holder: Holder | undefined;

  // One cluster for all, as a new one takes half a second.
  before(async () => {
    folder = temporaryFolder();
    data = join(folder, "data");
    await (await startEngines(data)).stop();
  });
  afterEach(async () => {
    await holder?.kill();
    holder = undefined;
    expect(await survivors(folder)).to.deep.equal([]);
  });
  after(() => removeFolder(folder));

  const databaseAt = async (connectionString: string) => {
    const client = new Client({ connectionString });
    await client.connect();
    const { rows } = await client.query<{ name: string }>("select current_database() as name");
    await client.end();
    return rows[0]?.name;
  };
  const refusal = (joining: Promise<unknown>) =>
    joining.then(
      () => expect.fail("it joined"),
      (error: unknown) => {
        expect(error).to.be.instanceOf(EngineError);
        return (error as Error).message;
      },
    );

  it("gives the database of the service that runs on the folder, and leaves it running", async () => {
    holder = holdEngines(data);
    const { databaseUrl } = await holder.next();
    const before = runningOn(data).length;

    const joined = await joinPostgres(data);
    const name = await databaseAt(joined.url);
    await joined.stop();

    expect(joined.url).to.equal(databaseUrl);
    expect(name).to.equal("holdfast");
    expect(runningOn(data)).to.have.length(before);
  });

  it("waits for a service that is still starting", async () => {
    holder = holdEngines(data);
    await eventually(() => existsSync(join(data, "owner.pid")));

    const { url, stop } = await joinPostgres(data);

    expect(await databaseAt(url)).to.equal("holdfast");
    await stop();
  });

  it("starts it where no service runs, and lets none start until it stops", async () => {
    const { url, stop } = await joinPostgres(data);
    const name = await databaseAt(url);
    const second = await refusal(startEngines(data));
    await stop();
    const service = await startEngines(data);
    await service.stop();

    expect(name).to.equal("holdfast");
    expect(second).to.include(`is already in use by process ${process.pid}`);
  });

  it("finds the socket of a folder whose path is too long for one", async () => {
    const moved = join(folder, "long-".repeat(30));
    renameSync(data, moved);
    holder = holdEngines(moved);
    const { databaseUrl } = await holder.next();

    const { url } = await joinPostgres(moved);
    await holder.kill();
    renameSync(moved, data);

    expect(url).to.equal(databaseUrl);
  });

  it("makes no database where there is none", async () => {
    const [missing, empty] = [join(folder, "missing"), join(folder, "empty")];
    mkdirSync(empty);

    const refused = [await refusal(joinPostgres(missing)), await refusal(joinPostgres(empty))];

    expect(refused).to.deep.equal(
      [missing, empty].map((path) => `there is no database in ${path}; set SERVICE_DATA_DIR`),
    );
    expect(existsSync(missing)).to.equal(false);
    expect(readdirSync(empty)).to.deep.equal([]);
  });
});
