import type { IncomingMessage } from "node:http";

/** What a body that is too large may go on sending before it is answered: a client that still writes reads no answer. */
const mostDiscardedBytes = 16 * 1024 * 1024;

/** The client went away before the end, or was sent away because it took too long. Nobody waits for an answer. */
export class ClientGone extends Error {}

/** The body of a request; undefined when it is too large. Rejects with ClientGone. */
export function readBody(request: IncomingMessage, mostBytes: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let size = 0;
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size <= mostBytes) chunks.push(chunk);
      else chunks = [];
      if (size <= mostDiscardedBytes) return;
      request.off("data", onData).pause();
      resolve(undefined);
    };
    request.on("data", onData);
    request.once("end", () => resolve(size <= mostBytes ? Buffer.concat(chunks) : undefined));
    const gone = () => reject(new ClientGone("the client went away"));
    request.once("error", gone);
    request.once("close", gone);
  });
}
