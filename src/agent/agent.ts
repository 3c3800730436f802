import { readFileSync } from "node:fs";
import { type ServiceError, status } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { GrpcConnection } from "../client/grpc-connection.ts";
import type { GrpcEndpoint } from "../client/grpc-endpoint.ts";
import { KeptToken } from "../client/kept-token.ts";
import { loginOverGrpc } from "../client/login-over-grpc.ts";
import { CredentialRefused, stayConnected } from "../client/stay-connected.ts";
import { type Credentials, checkStateFolder, readCredentials, writeCredentials } from "./credentials.ts";
import { enroll } from "./enroll.ts";
import { userAgent } from "./host.ts";
import { Reporter } from "./reporter.ts";
import { Session } from "./session.ts";
import { endpointsOf, SettingError, type Settings } from "./settings.ts";

/** Finds the keytabs of this host and reports them, for as long as it runs. */
export class Agent {
  readonly #settings: Settings;
  readonly #logger: Logger;
  readonly #serverUrls: readonly string[];
  readonly #reporter: Reporter;
  readonly #token = new KeptToken();
  #credentials: Pick<Credentials, "client_id" | "client_secret"> | undefined;
  /** By server: the fault that was told last, which is not told again. */
  readonly #told = new Map<string, string>();

  /** Throws a SettingError when it is not known who the agent is, or where its server. */
  constructor(settings: Settings, logger: Logger) {
    const { clientId, clientSecret, serverUrls, stateFolder, roots, otherFileSystems, scanIntervalMs } = settings;
    const enrolled = readCredentials(stateFolder);
    this.#settings = settings;
    this.#logger = logger;
    this.#serverUrls = serverUrls.length > 0 ? serverUrls : (enrolled?.server_urls ?? []);
    this.#credentials =
      clientId !== undefined && clientSecret !== undefined
        ? { client_id: clientId, client_secret: clientSecret }
        : enrolled;
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
    await stayConnected({
      endpoints: endpointsOf(this.#serverUrls, this.#settings.certificateAuthorities),
      userAgent,
      work: (connection, welcomed) => this.#serve(connection, welcomed),
      onFault: (fault, endpoint, waitMs) => this.#tell(fault, endpoint, waitMs),
      signal,
    });
    this.#reporter.close();
  }

  async #serve(connection: GrpcConnection, welcomed: () => void): Promise<void> {
    const { client_id: clientId, client_secret: clientSecret } = this.#credentials ?? (await this.#enroll(connection));
    const token = () => this.#token.get(() => loginOverGrpc(connection, clientId, clientSecret));
    await token();
    const session = new Session({
      connection,
      token,
      reporter: this.#reporter,
      logger: this.#logger,
      welcomed: () => {
        this.#told.clear();
        this.#logger.info({ server: connection.endpoint.url }, "connected");
        welcomed();
      },
    });
    await session.run().catch((error: ServiceError) => {
      // It ended, or was revoked: the next connection begins with a login.
      if (error.code === status.UNAUTHENTICATED) this.#token.discard();
      throw error;
    });
  }

  #prepareToEnroll(): void {
    const { enrollmentToken, enrollmentTokenFile, stateFolder } = this.#settings;
    if (enrollmentToken === undefined && enrollmentTokenFile === undefined)
      throw new SettingError("this host is not enrolled: run `holdfast agent enroll`, or set SERVICE_ENROLLMENT_TOKEN");
    checkStateFolder(stateFolder);
  }

  async #enroll(connection: GrpcConnection): Promise<Credentials> {
    const { enrollmentToken, enrollmentTokenFile = "", stateFolder } = this.#settings;
    // Read anew each time: it may hold another token by then.
    const token = enrollmentToken ?? readFileSync(enrollmentTokenFile, "utf8").trim();
    const credentials = await enroll(connection, token, this.#serverUrls);
    // The token is used up, even if they cannot be written.
    this.#credentials = credentials;
    writeCredentials(stateFolder, credentials);
    this.#logger.info({ agent_id: credentials.agent_id }, "enrolled");
    return credentials;
  }

  #tell(fault: unknown, { url: server }: GrpcEndpoint, waitMs: number): void {
    const { code, details, message = "the server ended the connection" } = (fault ?? {}) as Partial<ServiceError>;
    const reason = (details || message).replace(/\.? Resolution note: $/, "");
    if (reason === this.#told.get(server)) return;
    this.#told.set(server, reason);
    const about = { server, reason, next_try_in_seconds: Math.ceil(waitMs / 1000) };
    if (fault instanceof CredentialRefused)
      this.#logger.error(about, "the server refuses the credentials of this agent");
    else if (code === status.PERMISSION_DENIED) this.#logger.error(about, "the server has stopped this agent");
    else this.#logger.warn(about, "not connected");
  }
}
