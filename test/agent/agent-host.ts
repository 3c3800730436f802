import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Client } from "../harness/client.ts";
import type { TestServer } from "../harness/server.ts";
import { discovered } from "../server/discovery/files.ts";

const program = fileURLToPath(new URL("../../src/holdfast.js", import.meta.url));

/** Variables without the prefix SERVICE_. */
type Settings = Readonly<Record<string, string>>;

// oxlint-disable-next-line typescript/no-explicit-any
type Entry = Record<string, any>;

/** The longest that anything here takes on a machine with other things to do. */
const patienceMs = 60_000;

/** Answers the first value that `find` finds. */
export async function eventually<T>(what: string, find: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (const start = performance.now(); performance.now() - start < patienceMs; await sleep(50)) {
    const found = await find();
    if (found !== undefined) return found;
  }
  throw new Error(`${what}: not within ${patienceMs / 1000} s`);
}

/** The agent as hosts run it: a process with settings, which says what it does. */
export class AgentProcess {
  readonly child: ChildProcess;
  /** Everything that it wrote. */
  output = "";
  /** The exit status, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;

  constructor(environment: NodeJS.ProcessEnv) {
    this.child = spawn(program, ["agent"], { env: environment, cwd: "/", stdio: ["ignore", "pipe", "pipe"] });
    this.child.stdout?.on("data", (chunk) => (this.output += chunk));
    this.child.stderr?.on("data", (chunk) => (this.output += chunk));
    this.ended = new Promise((resolve) => this.child.once("close", (code, signal) => resolve(code ?? signal ?? -1)));
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** What it has logged, the oldest first. */
  entries(): Entry[] {
    const lines = this.output.slice(0, this.output.lastIndexOf("\n") + 1).split("\n");
    return lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line) as Entry);
  }

  /** The first entry with this message after the first `skip` of them. */
  async said(message: string, skip = 0): Promise<Entry> {
    return eventually(`the agent says "${message}" (${skip} before)`, () => {
      if (this.child.exitCode !== null) throw new Error(`the agent ended with ${this.child.exitCode}: ${this.output}`);
      return this.entries().filter(({ msg }) => msg === message)[skip];
    });
  }

  async end(signal: NodeJS.Signals): Promise<number | NodeJS.Signals> {
    this.child.kill(signal);
    return this.ended;
  }
}

/** A host with a folder of keytabs of its own, on which an agent runs. */
export class AgentHost {
  readonly folder: string = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-agent-")));
  /** What the agent is told to look through. */
  readonly tree: string = join(this.folder, "tree");
  readonly stateFolder: string = join(this.folder, "state");
  readonly credentialsFile: string = join(this.stateFolder, "credentials.json");
  readonly #processes: AgentProcess[] = [];

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

  start(settings: Settings): AgentProcess {
    const agent = new AgentProcess(this.environment(settings));
    this.#processes.push(agent);
    return agent;
  }

  /** Starts an agent that enrolls by itself, and waits until it has reported. */
  async startEnrolled(server: TestServer, settings: Settings = {}): Promise<AgentProcess> {
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
