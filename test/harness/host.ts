import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ClientReadableStream, ServiceError } from "@grpc/grpc-js";
import { AgentLinkService, type Command } from "../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import {
  KeytabReportService,
  type ReportedKeytabSchema,
  type ReportKeytabsRequestSchema,
  type UploadKeytabRequestSchema,
} from "../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import type { GrpcClient } from "../../src/client/grpc-client.ts";
import { parseKeytab } from "../../src/standards/keytab.ts";
import { Client } from "./client.ts";
import type { TestServer } from "./server.ts";

type Report = MessageInitShape<typeof ReportKeytabsRequestSchema>;
export type Found = MessageInitShape<typeof ReportedKeytabSchema>;
type Outcome = NonNullable<MessageInitShape<typeof UploadKeytabRequestSchema>["outcome"]>;

interface EnrollmentFields {
  readonly hostname?: string;
  /** Who makes the enrollment token: the first administrator unless another one does. */
  readonly by?: Client;
  /** The replica that the agent talks to. */
  readonly url?: string;
}

/** What an agent says of a keytab file. */
export function foundKeytab(filePath: string, bytes: Buffer, fields: Found = {}): Found {
  const { principal, realm, encryptionTypes, entries } = parseKeytab(bytes);
  const kvnos = entries.filter((entry) => entry.principal === principal).map(({ kvno }) => kvno);
  return {
    filePath,
    root: "/etc",
    keytabHash: createHash("sha256").update(bytes).digest("hex"),
    principal,
    realm,
    kvnos: [...new Set(kvnos)],
    encryptionTypes: [...encryptionTypes],
    filePermissions: "0600",
    fileOwner: "root:root",
    ...fields,
  };
}

/** A host with an agent that speaks gRPC, and that does what a test says. */
export class Host {
  /** Of the agent and of its machine identity. */
  readonly id: string;
  readonly hostname: string;
  /** The agent, logged in. */
  readonly client: Client;
  readonly link: GrpcClient<typeof AgentLinkService>;
  readonly reports: GrpcClient<typeof KeytabReportService>;
  readonly #server: TestServer;
  readonly #watches = new Set<Watch>();

  private constructor(server: TestServer, hostname: string, client: Client) {
    this.#server = server;
    this.id = client.id;
    this.hostname = hostname;
    this.client = client;
    this.link = client.grpc(AgentLinkService);
    this.reports = client.grpc(KeytabReportService);
  }

  /** A new agent that is online. Close it. */
  static async enroll(server: TestServer, fields: EnrollmentFields = {}): Promise<Host> {
    const { hostname = `host-${randomBytes(4).toString("hex")}`, by = server.admin, url = server.url } = fields;
    const { status, body } = await by.rest("POST", "/api/v1/agents/enrollment-tokens", {});
    if (status !== 201) throw new Error(`no enrollment token: ${JSON.stringify(body)}`);
    const link = new Client(url, undefined).grpc(AgentLinkService);
    const enrolled = await link.enroll({ enrollmentToken: body.token, hostname, version: "1.0.0", os: "Linux" });
    link.close();
    const host = new Host(server, hostname, await server.login(enrolled.clientId, enrolled.clientSecret, url));
    await host.heartbeat();
    return host;
  }

  /** The same agent at another replica, or at one that was started again. Close it too. */
  at(url: string): Host {
    return new Host(this.#server, this.hostname, new Client(url, this.client.token, this.id));
  }

  heartbeat() {
    return this.link.heartbeat({ version: "1.0.0", os: "Linux" }, this.client.metadata());
  }

  /** Lets the last heartbeat be so long ago that the agent counts as offline. */
  fallSilent(): Promise<unknown> {
    return this.#server.sql("update agent set last_heartbeat = now() - interval '3 minutes' where id = $1", [this.id]);
  }

  /** Reports files in one part: that of a complete scan of /etc unless told otherwise. */
  report(
    files: readonly Found[],
    { scanId = randomUUID(), complete = true, roots = ["/etc"], errors = [] }: Report = {},
  ) {
    const report = { scanId, complete, roots, errors, keytabs: [...files] };
    return this.reports.reportKeytabs(report, this.client.metadata());
  }

  upload(requestId: string, outcome: Outcome) {
    return this.reports.uploadKeytab({ requestId, outcome }, this.client.metadata());
  }

  /** Waits for commands, with the welcome first; with another credential where one is given. */
  watch({ client = this.client } = {}): Watch {
    const watch = new Watch(this.link.watchCommands({}, client.metadata()));
    this.#watches.add(watch);
    return watch;
  }

  /** Answers each request for a file with what is in `files` at that time; the answer ends that. */
  answerUploads(files: ReadonlyMap<string, Buffer>): () => void {
    const watch = this.watch();
    const answer = async () => {
      for await (const { kind } of watch) {
        if (kind.case !== "uploadKeytab") continue;
        const { requestId, filePath, expectedHash } = kind.value;
        // Whoever asked may have gone.
        await this.upload(requestId, outcomeOf(filePath, expectedHash, files.get(filePath))).catch(() => {});
      }
    };
    answer().catch(() => {});
    return () => watch.cancel();
  }

  close(): void {
    for (const watch of this.#watches) watch.cancel();
    this.link.close();
    this.reports.close();
  }
}

function outcomeOf(filePath: string, expectedHash: string, bytes: Buffer | undefined): Outcome {
  if (bytes === undefined) return { case: "failure", value: "no such file" };
  const hash = createHash("sha256").update(bytes).digest("hex");
  if (hash === expectedHash) return { case: "keytabData", value: bytes };
  return { case: "changed", value: foundKeytab(filePath, bytes) };
}

/** The messages of a server stream, in their order, those that came before anybody asked too. */
export class Watch<Message = Command> {
  readonly #stream: ClientReadableStream<Message>;
  readonly #arrived: Message[] = [];
  #isOver = false;
  #error: ServiceError | undefined;
  #tell = () => {};

  constructor(stream: ClientReadableStream<Message>) {
    this.#stream = stream;
    const over = (error?: ServiceError) => {
      this.#isOver = true;
      this.#error ??= error;
      this.#tell();
    };
    stream.on("error", over).on("end", () => over());
    stream.on("data", (message: Message) => {
      this.#arrived.push(message);
      this.#tell();
    });
  }

  /** The next message; undefined when the stream has ended well. Throws the ServiceError that it ended with. */
  async next(): Promise<Message | undefined> {
    while (this.#arrived.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#tell = resolve;
      });
    }
    const first = this.#arrived.shift();
    // grpc-js tells the end before the error.
    if (first === undefined) await new Promise(setImmediate);
    if (first === undefined && this.#error !== undefined) throw this.#error;
    return first;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Message> {
    for (let message = await this.next(); message !== undefined; message = await this.next()) yield message;
  }

  cancel(): void {
    this.#stream.cancel();
  }
}
