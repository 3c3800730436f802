import type { HandlerContext } from "@connectrpc/connect";
import type { Locks } from "../../../src/server/lock/lock.ts";
import { asKey } from "../../../src/server/seal/seal.ts";
import { Call, callOf } from "../../../src/server/wire/call.ts";
import { authorizing, recording, validating } from "../../../src/server/wire/chain.ts";
import { Documents } from "../../../src/server/wire/documents.ts";
import { doors, type Service } from "../../../src/server/wire/doors.ts";
import { type Completion, finishing } from "../../../src/server/wire/finishing.ts";
import { type Exclusion, holding } from "../../../src/server/wire/holding.ts";
import { replaying } from "../../../src/server/wire/idempotency.ts";
import type { Identity } from "../../../src/server/wire/identity.ts";
import { cleartextListener, type Listener } from "../../../src/server/wire/listener.ts";
import { type Preparation, preparing } from "../../../src/server/wire/preparing.ts";
import type { HttpRequest } from "../../../src/server/wire/rest-answer.ts";
import { unitOfWork } from "../../../src/server/wire/unit-of-work.ts";
import { Client } from "../../harness/client.ts";
import type { TestServer } from "../../harness/server.ts";
import { testService } from "./rest-door.ts";

const permission = "secret:write";

/**
 * The service of test/proto/orders behind all doors and the whole chain, on the engines of a test server. An order is a
 * row; its name says what comes of it: "failing" fails once it is written, "undecided" asks for no project itself.
 */
export class Orders {
  readonly descriptor = testService("orders.Orders");
  /** What orders wait for. */
  prepare: Preparation = async () => "";
  /** What follows once an order is committed. */
  complete: Completion = async (order) => order;
  /** What happens while an order is placed, which is the only one of its name by then. */
  meanwhile: () => Promise<void> = async () => {};
  readonly #server: TestServer;
  readonly #locks: () => Locks;
  #listener: Listener | undefined;
  #url = "";

  /** `locks` are asked for once the server has started. */
  constructor(server: TestServer, locks: () => Locks) {
    this.#server = server;
    this.#locks = locks;
  }

  async start(): Promise<void> {
    const { audit, logger, seal } = this.#server.server.core;
    await this.#server.sql("create table if not exists ordered (name text not null)");
    const [{ id: organizationId }] = await this.#server.sql("select id from organization");
    const prepare: Preparation = (message, call, signal) => this.prepare(message, call, signal);
    const services: Service[] = [
      {
        descriptor: this.descriptor,
        implementation: this.#implementation(),
        preparations: { placeOrder: prepare, watchOrders: prepare },
        completions: { placeOrder: (order, call, signal) => this.complete(order, call, signal) },
        exclusions: { placeOrder: oneOfItsName, watchOrders: oneOfItsName },
      },
    ];
    const handler = doors({
      services,
      admit: async (call) => {
        const where = /^Bearer (.+)$/.exec(call.source.header("authorization") ?? "")?.[1];
        if (where !== undefined) call.identity = identity(this.#server.admin.id, organizationId, where);
      },
      chain: [
        recording(audit, logger),
        authorizing(new Set()),
        validating(logger),
        preparing(services),
        finishing(services),
        holding(services, this.#locks()),
        unitOfWork(audit),
        replaying(asKey(await seal.serviceKey("idempotency"))),
      ],
      newCall: (request) => this.#newCall(request),
      documents: new Documents(new URL("../../../gen/openapi.json", import.meta.url)),
      isHealthy: () => Promise.resolve(true),
      shutdown: new AbortController().signal,
    });
    this.#listener = cleartextListener(handler);
    const { port } = await this.#listener.listen("127.0.0.1", 0);
    this.#url = `http://127.0.0.1:${port}`;
  }

  async stop(): Promise<void> {
    await this.#listener?.close(0);
  }

  /** Somebody who may order everywhere, nowhere, or in one project only. */
  client(where = "everywhere"): Client {
    return new Client(this.#url, where);
  }

  /** The names of all orders, in the order that they were made. */
  async names(): Promise<string[]> {
    const rows = await this.#server.sql("select name from ordered order by ctid");
    return rows.map(({ name }) => name);
  }

  #implementation() {
    const write = async (context: HandlerContext, name: string) => {
      await callOf(context).query("insert into ordered (name) values ($1)", [name]);
      if (name === "failing") throw new Error("of the test");
    };
    return {
      placeOrder: async ({ name }: { name: string }, context: HandlerContext) => {
        const call = callOf(context);
        const prepared = await call.prepared;
        await this.meanwhile();
        if (name !== "undecided") call.authorizeIn(this.#server.projectId);
        await write(context, name);
        call.about({ name, projectId: this.#server.projectId });
        return { name, prepared: String(prepared) };
      },
      noteOrder: async ({ name }: { name: string }, context: HandlerContext) => {
        callOf(context).about({ name });
        await write(context, name);
        return { name };
      },
      async *watchOrders(_: object, context: HandlerContext) {
        yield { name: "watched", prepared: callOf(context).prepared === undefined ? "" : "somehow" };
      },
    };
  }

  #newCall({ headers, method = "", url = "" }: HttpRequest): Call {
    const header = (name: string) => headers[name] as string | undefined;
    const door = url.startsWith("/orders.") ? ("rpc" as const) : ("rest" as const);
    const requestId = header("x-request-id") ?? "r";
    const source = { door, requestId, method, address: "127.0.0.1", header, isOwnOrigin: () => true };
    return new Call(source, this.#server.server.core.db);
  }
}

const oneOfItsName: Exclusion = {
  name: ({ name }: { name?: string }) => `order:${name}`,
  refusal: "another order of this name is being placed",
};

function identity(id: string, organizationId: string, where: string): Identity {
  const held = new Set([permission]);
  return {
    id,
    type: "machine_identity",
    name: where,
    organizationId,
    credentialVersion: 1,
    ofInstance: true,
    roles: new Set(),
    permissions: where === "everywhere" ? held : new Set(),
    projectPermissions: new Map(where === "everywhere" || where === "nowhere" ? [] : [[where, held]]),
    rateLimitPerMinute: undefined,
    credential: undefined,
    admits: () => true,
  };
}

/** Orders for the tests of the surrounding `describe` or file. */
export function useOrders(server: TestServer, locks = () => server.server.core.locks): Orders {
  const orders = new Orders(server, locks);
  before(() => orders.start());
  after(() => orders.stop());
  return orders;
}
