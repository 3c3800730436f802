import { rmSync, writeFileSync } from "node:fs";
import { expect } from "chai";
import { keysOf, newKeytab } from "../harness/keytabs.ts";
import { disguises } from "../harness/leaks.ts";
import { useServer } from "../harness/server.ts";
import { useAgentHost } from "./agent-host.ts";
import { Proxy } from "./proxy.ts";

describe("Key bytes", function () {
  // Each test starts a program.
  this.timeout(120_000);
  const server = useServer({ KEYTAB_ENABLED: "true" });
  const host = useAgentHost();
  let proxy: Proxy;
  beforeEach(async () => {
    proxy = await Proxy.start(server.url);
  });
  afterEach(() => proxy.close());

  /** Which of the keys can be seen in what the agent sent, in whatever form. */
  function seenOf(files: readonly Buffer[]): string[] {
    const sent = proxy.sent.toString("latin1");
    const keys = files.flatMap(keysOf);
    return keys.filter((key) => disguises(key).some((form) => sent.includes(form))).map((key) => key.toString());
  }

  it("leave a host only when somebody imports the file, and then those of that file alone", async () => {
    const files = Array.from({ length: 20 }, (_, index) =>
      newKeytab({ principal: `HTTP/${index}`, enctypes: [18, 17] }),
    );
    const paths = files.map((file, index) => host().write(`${index}.keytab`, file));
    const [imported = "", changing = "", removed = ""] = paths;
    const agent = await host().startEnrolled(server, { SERVER_URL: proxy.url });

    const changed = newKeytab({ kvno: 9 });
    writeFileSync(changing, changed);
    rmSync(removed);
    await host().recordOf(server.admin, changing, ({ kvno }) => kvno === 9);
    await host().recordOf(server.admin, removed, ({ state }) => state === "stale");
    const { id } = await host().recordOf(server.admin, imported);
    // What it is asked for is another file by now: of that, too, it says what it is, and no more.
    const other = newKeytab({ kvno: 7 });
    agent.child.kill("SIGSTOP");
    const importing = server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {});
    writeFileSync(imported, other);
    agent.child.kill("SIGCONT");

    expect((await importing).status).to.equal(409);
    expect(proxy.sent.toString("latin1")).to.include("HTTP/19@EXAMPLE.COM");
    expect(seenOf([...files, changed, other])).to.deep.equal([]);

    const { status } = await server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {});

    expect(status).to.equal(201);
    expect(seenOf([...files, changed, other])).to.deep.equal(keysOf(other).map(String));
  });
});
