import { accessSync, constants } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { type MachineSettings, readMachineSettings } from "../client/machine-settings.ts";
import { listOf, Variables } from "../client/variables.ts";

/** What the agent is told by variables named SERVICE_…; an empty one counts as unset. */
export interface Settings extends MachineSettings {
  /** A one-time token, or where it is. */
  readonly enrollmentToken: string | undefined;
  readonly enrollmentTokenFile: string | undefined;
  /** Where the agent keeps its credentials. */
  readonly stateFolder: string;
  /** Places to look for keytabs in, beside the usual ones. */
  readonly roots: readonly string[];
  readonly otherFileSystems: boolean;
  readonly scanIntervalMs: number;
}

const systemStateFolder = "/var/lib/holdfast-agent";
const scanSeconds = { min: 10, max: 604_800 };

/** Reads the settings. Throws a SettingError. */
export function readSettings(environment: NodeJS.ProcessEnv): Settings {
  const variables = new Variables(environment);
  const settings: Settings = {
    ...readMachineSettings(variables),
    enrollmentToken: variables.text("ENROLLMENT_TOKEN"),
    enrollmentTokenFile: variables.text("ENROLLMENT_TOKEN_FILE"),
    stateFolder: variables.read(
      "AGENT_STATE_DIR",
      defaultStateFolder(environment),
      "must be an absolute path",
      absolute,
    ),
    roots: variables.read("AGENT_ROOTS", [], "must be absolute paths, separated by commas", parseRoots),
    otherFileSystems: variables.read("AGENT_OTHER_FILE_SYSTEMS", false, "must be true or false", parseBoolean),
    scanIntervalMs: variables.number("AGENT_SCAN_INTERVAL_SECONDS", 3600, scanSeconds) * 1000,
  };
  if (settings.enrollmentToken !== undefined && settings.enrollmentTokenFile !== undefined)
    variables.fault("SERVICE_ENROLLMENT_TOKEN and SERVICE_ENROLLMENT_TOKEN_FILE exclude each other: set one");
  variables.check();
  return settings;
}

/** The folder of the system's agent for who may write there, else one of the user's own (XDG Base Directory Specification). */
function defaultStateFolder(environment: NodeJS.ProcessEnv): string {
  if (process.getuid?.() === 0 || isWritable(systemStateFolder)) return systemStateFolder;
  const given = environment["XDG_STATE_HOME"] ?? "";
  return join(isAbsolute(given) ? given : join(homedir(), ".local", "state"), "holdfast-agent");
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

const absolute = (path: string) => (isAbsolute(path) ? path : undefined);

const parseRoots = (text: string) => (listOf(text).every(isAbsolute) ? listOf(text) : undefined);

function parseBoolean(text: string): boolean | undefined {
  const lower = text.toLowerCase();
  return lower === "true" || lower === "false" ? lower === "true" : undefined;
}
