import { rmSync } from "node:fs";
import { expect } from "chai";
import { newKeytab } from "../harness/keytabs.ts";
import { eventually } from "../harness/program.ts";
import { useServer } from "../harness/server.ts";
import { useAgentHost } from "./agent-host.ts";
import { Proxy } from "./proxy.ts";

/** More than go into one part of a report, and than a connection takes before it waits. */
const many = 450;

describe("An agent that is killed amid a report", function () {
  // Each test starts programs.
  this.timeout(120_000);
  const server = useServer({ KEYTAB_ENABLED: "true" });
  const host = useAgentHost();
  let proxy: Proxy;
  beforeEach(async () => {
    proxy = await Proxy.start(server.url);
  });
  afterEach(() => proxy.close());

  it("makes nothing stale, and its next complete report repairs what is known", async () => {
    for (let index = 0; index < many; index += 1) host().write(`${index}.keytab`, newKeytab());
    const gone = host().write("zz-gone.keytab", newKeytab());
    const first = await host().startEnrolled(server);
    await first.end("SIGTERM");
    const count = async (condition: string) => {
      const [row] = await server.sql(`select count(*)::int as count from discovered_keytab where ${condition}`);
      return row.count as number;
    };
    const kept = await count("true");
    rmSync(gone);
    for (let index = 0; index < many; index += 1) host().write(`${index}.keytab`, newKeytab({ kvno: 2 }));

    proxy.limit(75_000);
    const second = host().start({ SERVER_URL: proxy.url });
    const partial = await eventually("a part of the report", async () => (await count("kvno = 2")) || undefined);
    await second.end("SIGKILL");

    expect(kept).to.equal(many + 1);
    expect(partial).to.be.lessThan(many);
    expect(await count("stale")).to.equal(0);

    const third = host().start({});
    const reported = await third.said("reported");

    expect(reported).to.include({ keytabs: many, stale: 1 });
    expect(await count("kvno = 2")).to.equal(many);
    expect(await server.sql("select file_path from discovered_keytab where stale")).to.deep.equal([
      { file_path: gone },
    ]);
  });
});
