import { readFileSync } from "node:fs";
import type { Logger } from "pino";
import type { GrpcConnection } from "../client/grpc-connection.ts";
import { endpointsOf, type MachineCredentials } from "../client/machine-settings.ts";
import { SettingError } from "../client/program.ts";
import { type LoggedIn, stayLoggedIn } from "../client/stay-logged-in.ts";
import { type Credentials, checkStateFolder, readCredentials, writeCredentials } from "./credentials.ts";
import { enroll } from "./enroll.ts";
import { userAgent } from "./host.ts";
import { Reporter } from "./reporter.ts";
import { Session } from "./session.ts";
import type { Settings } from "./settings.ts";

/** Finds the keytabs of this host and reports them, for as long as it runs. */
export class Agent {
  readonly #settings: Settings;
  readonly #logger: Logger;
  readonly #serverUrls: readonly string[];
  readonly #reporter: Reporter;
  #credentials: MachineCredentials | undefined;

  /** Throws a SettingError when it is not known who the agent is, or where its server. */
  constructor(settings: Settings, logger: Logger) {
    const { credentials, serverUrls, stateFolder, roots, otherFileSystems, scanIntervalMs } = settings;
    const enrolled = readCredentials(stateFolder);
    this.#settings = settings;
    this.#logger = logger;
    this.#serverUrls = serverUrls.length > 0 ? serverUrls : (enrolled?.server_urls ?? []);
    this.#credentials = credentials ?? (enrolled && machineCredentials(enrolled));
    this.#reporter = new Reporter({
      scan: { roots, otherFileSystems, defaultPlaces: true, environment: process.env },
      intervalMs: scanIntervalMs,
      logger,
    });
    if (this.#serverUrls.length === 0) throw new SettingError("SERVICE_SERVER_URL: must be set");
    if (this.#credentials === undefined) this.#prepareToEnroll();
  }

  /** Runs until `signal` is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    await stayLoggedIn({
      noun: "agent",
      userAgent,
      endpoints: endpointsOf(this.#serverUrls, this.#settings.certificateAuthorities),
      credentials: async (connection) => this.#credentials ?? this.#enroll(connection),
      serve: (session) => this.#serve(session),
      logger: this.#logger,
      signal,
    });
    this.#reporter.close();
  }

  #serve(session: LoggedIn): Promise<void> {
    return new Session({ ...session, reporter: this.#reporter, logger: this.#logger }).run();
  }

  #prepareToEnroll(): void {
    const { enrollmentToken, enrollmentTokenFile, stateFolder } = this.#settings;
    if (enrollmentToken === undefined && enrollmentTokenFile === undefined)
      throw new SettingError("this host is not enrolled: run `holdfast agent enroll`, or set SERVICE_ENROLLMENT_TOKEN");
    checkStateFolder(stateFolder);
  }

  async #enroll(connection: GrpcConnection): Promise<MachineCredentials> {
    const { enrollmentToken, enrollmentTokenFile = "", stateFolder } = this.#settings;
    // Read anew each time: it may hold another token by then.
    const token = enrollmentToken ?? readFileSync(enrollmentTokenFile, "utf8").trim();
    const enrolled = await enroll(connection, token, this.#serverUrls);
    // The token is used up, even if they cannot be written.
    this.#credentials = machineCredentials(enrolled);
    writeCredentials(stateFolder, enrolled);
    this.#logger.info({ agent_id: enrolled.agent_id }, "enrolled");
    return this.#credentials;
  }
}

const machineCredentials = (enrolled: Credentials): MachineCredentials => ({
  clientId: enrolled.client_id,
  clientSecret: () => enrolled.client_secret,
});
