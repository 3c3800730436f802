import { promisify } from "node:util";
import { brotliDecompress, gunzip } from "node:zlib";
import { Code } from "@connectrpc/connect";
import { Refusal } from "../errors.ts";

/** A frame of gRPC: one byte of flags, four of length (gRPC over HTTP/2, "Length-Prefixed-Message"). */
const headLength = 5;
const compressedFlag = 1;

export const rpcBodyLimits = { mostBytes: 4 * 1024 * 1024 + headLength, timeoutMs: 20_000 };

const decompressors = new Map([
  ["gzip", promisify(gunzip)],
  ["br", promisify(brotliDecompress)],
]);

/** What we can read, as the headers grpc-accept-encoding and accept-encoding say it. */
export const acceptedEncodings = [...decompressors.keys()].join(",");

const refuse = (message: string, rpc: Code = Code.InvalidArgument) => new Refusal("VALIDATION_ERROR", message, { rpc });

/** The one message of a unary gRPC body. Throws VALIDATION_ERROR. */
export function unframe(body: Buffer, encoding: string): Buffer | Promise<Buffer> {
  if (body.length < headLength || body.readUInt32BE(1) !== body.length - headLength) {
    throw refuse("the body is not one message");
  }
  const message = body.subarray(headLength);
  if (body[0] === 0) return message;
  if (body[0] !== compressedFlag) throw refuse("the message has unknown flags");
  if (encoding === "identity") throw refuse("the message is compressed and does not say how");
  return decompress(message, encoding);
}

/** The bytes before they were compressed, of which there may be no more than of bytes that were not. */
export async function decompress(bytes: Buffer, encoding: string): Promise<Buffer> {
  if (encoding === "identity") return bytes;
  const inflate = decompressors.get(encoding);
  if (inflate === undefined) throw refuse(`only ${acceptedEncodings} compression is known`, Code.Unimplemented);
  try {
    return await inflate(bytes, { maxOutputLength: rpcBodyLimits.mostBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") {
      throw refuse("the message is too large", Code.ResourceExhausted);
    }
    throw refuse("the message cannot be decompressed");
  }
}

/** A message as a frame, uncompressed. */
export function frame(message: Uint8Array, flags = 0): Buffer {
  const framed = Buffer.allocUnsafe(headLength + message.length);
  framed[0] = flags;
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, headLength);
  return framed;
}
