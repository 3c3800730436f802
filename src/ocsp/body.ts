import type { IncomingMessage } from "node:http";
import { GatheredBytes } from "../standards/gathered-bytes.ts";

/** What a body that is too large may go on sending before it is answered: a client that still writes reads no answer. */
const mostDiscardedBytes = 16 * 1024 * 1024;
/** A piece costs time however small it is: a body may come in so many, and one more for each so many bytes. */
const mostTinyPieces = 1000;
const tinyPieceBytes = 256;

/** The client went away before the end, or was sent away because it took too long. Nobody waits for an answer. */
export class ClientGone extends Error {}

/** The body of a request; undefined when it is too large, or comes in too many pieces. Rejects with ClientGone. */
export function readBody(request: IncomingMessage, mostBytes: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const body = new GatheredBytes();
    let [size, pieces] = [0, 0];
    const onData = (piece: Buffer) => {
      size += piece.length;
      pieces += 1;
      if (size <= mostBytes) body.add(piece);
      if (size <= mostDiscardedBytes && pieces <= mostTinyPieces + size / tinyPieceBytes) return;
      request.off("data", onData).pause();
      resolve(undefined);
    };
    request.on("data", onData);
    request.once("end", () => resolve(size <= mostBytes ? body.all() : undefined));
    const gone = () => reject(new ClientGone("the client went away"));
    request.once("error", gone);
    request.once("close", gone);
  });
}
