import type { DescService } from "@bufbuild/protobuf";
import { readDescriptors } from "../../../src/contract/generate-openapi.ts";
import { Call } from "../../../src/server/wire/call.ts";
import { cleartextListener, type Listener } from "../../../src/server/wire/listener.ts";
import { RestDoor } from "../../../src/server/wire/rest.ts";
import type { HttpRequest } from "../../../src/server/wire/rest-answer.ts";
import { streamCalls } from "../../../src/server/wire/stream-calls.ts";
import { unaryCalls } from "../../../src/server/wire/unary-calls.ts";

/** A service of test/proto, by its full name. */
export function testService(name: string): DescService {
  const service = readDescriptors("test/proto").getService(name);
  if (service === undefined) throw new Error(`test/proto has lost ${name}`);
  return service;
}

/**
 * A service of test/proto behind the REST door alone, over HTTP/1.1 and HTTP/2: no chain, no database. Runs for the
 * tests of the surrounding `describe` or file; what it answers says where.
 */
export function useRestDoor(serviceName: string, implementation: object): () => string {
  let listener: Listener;
  let url = "";
  before(async () => {
    const service = testService(serviceName);
    const door = new RestDoor({
      calls: unaryCalls(service, implementation, []),
      streams: streamCalls(service, implementation, []),
      newCall: callWithoutChain,
      admit: () => Promise.resolve(),
    });
    listener = cleartextListener((request, response) => door.handle(request, response));
    const { port } = await listener.listen("127.0.0.1", 0);
    url = `http://127.0.0.1:${port}`;
  });
  after(() => listener.close(0));
  return () => url;
}

function callWithoutChain({ method = "" }: HttpRequest): Call {
  const source = {
    door: "rest" as const,
    requestId: "r",
    method,
    address: "127.0.0.1",
    header: () => undefined,
    isOwnOrigin: () => true,
  };
  return new Call(source, undefined as never);
}
