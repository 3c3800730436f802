import { BlockList } from "node:net";
import { hostname } from "node:os";
import { type MachineCredentials, type MachineSettings, readMachineSettings } from "../client/machine-settings.ts";
import { SettingError } from "../client/program.ts";
import { listOf, Variables } from "../client/variables.ts";
import { addNetwork } from "../standards/networks.ts";
import { type Command, readCommands } from "./commands-file.ts";

/** What the gateway is told by variables named SERVICE_…; an empty one counts as unset. */
export interface Settings extends MachineSettings {
  readonly credentials: MachineCredentials;
  readonly name: string;
  readonly environment: string;
  readonly role: string;
  readonly region: string;
  /** The client id of the cloud's managed identity that it runs as; only shown. */
  readonly identityClientId: string;
  /** How many tasks run at once. */
  readonly concurrency: number;
  /** What tasks may run here, by name. */
  readonly commands: ReadonlyMap<string, Command>;
  /** Networks that are not public, and in which targets may be all the same. */
  readonly allowedNetworks: BlockList;
  /** Where probes and metrics are; undefined for none. */
  readonly probes: { readonly host: string; readonly port: number } | undefined;
}

const roles = ["primary", "dr-standby"];
const mostCharacters = { environment: 50, other: 255 };

/** Reads the settings. Throws a SettingError or an ExposedFile. */
export function readSettings(environment: NodeJS.ProcessEnv): Settings {
  const variables = new Variables(environment);
  const short = (name: string, fallback: string, most = mostCharacters.other) =>
    variables.read(name, fallback, `must be at most ${most} characters`, (text) =>
      [...text].length <= most ? text : undefined,
    );
  variables.require("SERVER_URL", "CLIENT_ID", "GATEWAY_ENVIRONMENT", "GATEWAY_ROLE");
  const { credentials, ...machine } = readMachineSettings(variables);
  const settings = {
    ...machine,
    name: short("GATEWAY_NAME", hostname()),
    environment: short("GATEWAY_ENVIRONMENT", "", mostCharacters.environment),
    role: variables.read("GATEWAY_ROLE", "", `must be one of ${roles.join(", ")}`, (text) =>
      roles.includes(text) ? text : undefined,
    ),
    region: short("GATEWAY_REGION", ""),
    identityClientId: short("GATEWAY_MANAGED_IDENTITY_CLIENT_ID", ""),
    concurrency: variables.number("GATEWAY_CONCURRENCY", 4, { min: 1, max: 64 }),
    commands: readCommandsOf(variables),
    allowedNetworks: variables.read("OUTBOUND_ALLOWED_CIDRS", new BlockList(), networksRule, parseNetworks),
    probes: readProbes(variables),
  };
  variables.check();
  // It was asked for, so there would be a fault.
  return { ...settings, credentials: credentials as MachineCredentials };
}

function readCommandsOf(variables: Variables): ReadonlyMap<string, Command> {
  const path = variables.text("GATEWAY_COMMANDS_FILE");
  try {
    return path === undefined ? new Map() : readCommands(path);
  } catch (error) {
    if (!(error instanceof SettingError)) throw error;
    variables.fault(error.message);
    return new Map();
  }
}

const networksRule = "must be addresses or networks (CIDR), separated by commas";

function parseNetworks(text: string): BlockList | undefined {
  const networks = new BlockList();
  return listOf(text).every((each) => addNetwork(networks, each)) ? networks : undefined;
}

function readProbes(variables: Variables): Settings["probes"] {
  const host = variables.text("GATEWAY_HOST") ?? "127.0.0.1";
  if (variables.text("GATEWAY_PORT") === "off") return undefined;
  return { host, port: variables.number("GATEWAY_PORT", 8082, { min: 0, max: 65_535 }) };
}
