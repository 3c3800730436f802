import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Client } from "../harness/client.ts";
import { type Entry, eventually, Program } from "../harness/program.ts";
import type { TestServer } from "../harness/server.ts";
import { discovered } from "../server/discovery/files.ts";

/** Variables without the prefix SERVICE_. */
type Settings = Readonly<Record<string, string>>;

/** A host with a folder of keytabs of its own, on which an agent runs. */
export class AgentHost {
  readonly folder: string = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-agent-")));
  /** What the agent is told to look through. */
  readonly tree: string = join(this.folder, "tree");
  readonly stateFolder: string = join(this.folder, "state");
  readonly credentialsFile: string = join(this.stateFolder, "credentials.json");
  readonly #processes: Program[] = [];

  constructor() {
    mkdirSync(this.tree);
  }

  /** Writes a file into the tree, and answers its path. */
  write(name: string, content: Buffer, mode = 0o600): string {
    const path = join(this.tree, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content, { mode });
    return path;
  }

  /** The whole environment of a program on this host. */
  environment(settings: Settings): NodeJS.ProcessEnv {
    const all = {
      AGENT_STATE_DIR: this.stateFolder,
      AGENT_ROOTS: this.tree,
      AGENT_SCAN_INTERVAL_SECONDS: "3600",
      LOG_LEVEL: "debug",
      ...settings,
    };
    const named = Object.entries(all).map(([name, value]) => [`SERVICE_${name}`, value]);
    const own = { HOME: this.folder, KRB5_CONFIG: join(this.folder, "krb5.conf") };
    return { PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`, ...own, ...Object.fromEntries(named) };
  }

  start(settings: Settings): Program {
    const agent = new Program("agent", this.environment(settings));
    this.#processes.push(agent);
    return agent;
  }

  /** Starts an agent that enrolls by itself, and waits until it has reported. */
  async startEnrolled(server: TestServer, settings: Settings = {}): Promise<Program> {
    const enrollment = { SERVER_URL: server.url, ENROLLMENT_TOKEN: await newEnrollmentToken(server) };
    const agent = this.start({ ...enrollment, ...settings });
    await agent.said("reported");
    return agent;
  }

  /** The id of the agent that is enrolled here. */
  get agentId(): string {
    return JSON.parse(readFileSync(this.credentialsFile, "utf8")).agent_id;
  }

  /** The record of a file of this host, once `isSo` holds for it. */
  recordOf(by: Client, filePath: string, isSo: (record: Entry) => boolean = () => true): Promise<Entry> {
    return eventually(`the record of ${filePath}`, async () => {
      const records = (await discovered(by, `agent_id=${this.agentId}`)) as Entry[];
      return records.find((record) => record["file_path"] === filePath && isSo(record));
    });
  }

  async close(): Promise<void> {
    await Promise.all(this.#processes.map((agent) => agent.end("SIGKILL")));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A token that an administrator makes. */
export async function newEnrollmentToken(server: TestServer): Promise<string> {
  const { status, body } = await server.admin.rest("POST", "/api/v1/agents/enrollment-tokens", {});
  if (status !== 201) throw new Error(`no enrollment token: ${JSON.stringify(body)}`);
  return body.token;
}

/** A host of its own for each test of the surrounding `describe` or file. */
export function useAgentHost(): () => AgentHost {
  let host: AgentHost;
  beforeEach(() => {
    host = new AgentHost();
  });
  afterEach(() => host.close());
  return () => host;
}
