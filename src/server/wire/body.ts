import { GatheredBytes } from "../../standards/gathered-bytes.ts";
import { Refusal } from "../errors.ts";
import type { HttpRequest } from "./rest-answer.ts";

export interface BodyLimits {
  readonly mostBytes: number;
  /** From the headers to the last byte. */
  readonly timeoutMs: number;
}

/** What a body that is too large may go on sending before it is answered: a client that still writes reads no answer. */
const mostDiscardedBytes = 16 * 1024 * 1024;
const longestDiscardMs = 1000;

/** The body of a request, or why it cannot be read. Rejects when the caller goes away before its end. */
export function readBody(request: HttpRequest, { mostBytes, timeoutMs }: BodyLimits): Promise<Buffer | Refusal> {
  return new Promise((resolve, reject) => {
    let body = new GatheredBytes();
    let size = 0;
    let refusal: Refusal | undefined;
    let timer = setTimeout(() => settle(tooSlow()), timeoutMs);
    const discard = () => {
      refusal = tooLarge(mostBytes);
      body = new GatheredBytes();
      clearTimeout(timer);
      timer = setTimeout(() => settle(tooLarge(mostBytes)), longestDiscardMs);
    };
    const settle = (outcome: Buffer | Refusal) => {
      clearTimeout(timer);
      request.off("data", onData);
      if (outcome instanceof Refusal) request.pause();
      resolve(outcome);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (refusal !== undefined) {
        if (size > mostBytes + mostDiscardedBytes) settle(refusal);
      } else if (size > mostBytes) discard();
      else body.add(chunk);
    };
    const gone = () => {
      clearTimeout(timer);
      reject(new Error("the caller went away"));
    };
    if (Number(request.headers["content-length"]) > mostBytes) discard();
    request.on("data", onData);
    request.once("end", () => settle(refusal ?? body.all()));
    request.once("error", gone);
    request.once("close", gone);
  });
}

export const tooLarge = (mostBytes: number) =>
  unreadable("the body is too large", `must be at most ${mostBytes} bytes`);

export const tooSlow = () => unreadable("the body did not arrive in time", "arrived too slowly");

const unreadable = (message: string, fault: string) =>
  new Refusal("VALIDATION_ERROR", message, { details: [{ field: "body", message: fault }] });
