import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { TestServer } from "./harness/server.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const readme = readFileSync(join(root, "README.md"), "utf8");
const [, walk = ""] = readme.split("## A first secret");
const commands = [...walk.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, text = ""]) => text);

describe("the README", () => {
  it("leads to a first secret by the command line, REST, gRPC and Connect, and to a keytab, when its commands are pasted into a shell", async function () {
    this.timeout(60_000);
    if (spawnSync("curl", ["--version"]).error !== undefined) {
      console.log("      (curl is not installed, so the README's commands cannot be run)");
      this.skip();
    }
    const server = new TestServer({});
    const folder = mkdtempSync(join(tmpdir(), "holdfast-readme-"));
    try {
      await server.start();
      for (const name of ["gen", "src", "test", "node_modules", "package.json"])
        symlinkSync(join(root, name), join(folder, name));
      const env = {
        ...process.env,
        HOLDFAST_URL: server.url,
        HOLDFAST_PROJECT_ID: server.projectId,
        HOLDFAST_CLIENT_ID: server.clientId,
        HOLDFAST_CLIENT_SECRET: server.clientSecret,
      };

      const output = await run(commands.join("\n"), folder, env);

      expect(output.match(/correct horse/g)).to.have.length(5);
      expect(output).to.match(/KVNO Timestamp .*Principal[^]*\(aes256-cts-hmac-sha1-96\)/);
    } finally {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

/** Runs a script beside this process, which is the server that it talks to. */
function run(script: string, cwd: string, env: NodeJS.ProcessEnv): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile("bash", ["-eu", "-c", script], { cwd, env }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${stdout}\n${stderr}`));
      else resolve(stdout);
    });
  });
}
