import type { Socket } from "node:net";
import { TLSSocket, type TLSSocketOptions } from "node:tls";

/** What servers of MySQL say, and can do, as far as it is needed to log in. */
const capability = {
  longPassword: 0x1,
  protocol41: 0x200,
  ssl: 0x800,
  transactions: 0x2000,
  secureConnection: 0x8000,
  pluginAuth: 0x80000,
} as const;
const everything = Object.values(capability).reduce((all, each) => all | each, 0);

/** Packets of MySQL's protocol over a connection: a length, a number and a payload each. */
export class Packets {
  readonly #stream: Socket;
  #received: Buffer = Buffer.alloc(0);
  #arrival = Promise.withResolvers<void>();
  #next = 0;

  constructor(stream: Socket) {
    this.#stream = stream;
    stream.on("data", this.#onData).on("close", this.#wake);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#received = Buffer.concat([this.#received, chunk]);
    this.#wake();
  };

  readonly #wake = (): void => {
    this.#arrival.resolve();
    this.#arrival = Promise.withResolvers();
  };

  /** The next payload; undefined at the end of the connection. */
  async read(): Promise<Buffer | undefined> {
    for (;;) {
      const length = this.#received.length < 4 ? Number.POSITIVE_INFINITY : this.#received.readUIntLE(0, 3);
      if (this.#received.length >= 4 + length) {
        const payload = this.#received.subarray(4, 4 + length);
        this.#next = (this.#received[3] as number) + 1;
        this.#received = this.#received.subarray(4 + length);
        return payload;
      }
      if (this.#stream.destroyed) return undefined;
      await this.#arrival.promise;
    }
  }

  write(payload: Buffer): void {
    this.#stream.write(packet(payload, this.#next++));
  }

  /** The same exchange goes on over TLS, of which the beginning may be here already. */
  secure(options: TLSSocketOptions): Packets {
    this.#stream.off("data", this.#onData).pause();
    if (this.#received.length > 0) this.#stream.unshift(this.#received);
    const packets = new Packets(new TLSSocket(this.#stream, { ...options, isServer: true }).on("error", () => {}));
    packets.#next = this.#next;
    return packets;
  }
}

export function packet(payload: Buffer, sequence: number): Buffer {
  const header = Buffer.alloc(4);
  header.writeUIntLE(payload.length, 0, 3);
  header[3] = sequence;
  return Buffer.concat([header, payload]);
}

/** The first that a server says. */
export function hello(version: string, scramble: Buffer, plugin: string, isTlsOffered: boolean): Buffer {
  const capabilities = isTlsOffered ? everything : everything & ~capability.ssl;
  const numbers = Buffer.alloc(4);
  numbers.writeUInt32LE(capabilities);
  return Buffer.concat([
    Buffer.from([10]),
    Buffer.from(`${version}\0`),
    Buffer.from([1, 0, 0, 0]),
    scramble.subarray(0, 8),
    Buffer.from([0]),
    numbers.subarray(0, 2),
    Buffer.from([45, 2, 0]),
    numbers.subarray(2),
    Buffer.from([21]),
    Buffer.alloc(10),
    scramble.subarray(8, 20),
    Buffer.from(`\0${plugin}\0`),
  ]);
}

export const asksForTls = (payload: Buffer): boolean => payload.length === 32;

/** Who answers the hello, and the proof of the password. */
export function readLogin(payload: Buffer): { readonly username: string; readonly proof: Buffer } {
  const end = payload.indexOf(0, 32);
  const length = payload[end + 1] as number;
  return { username: payload.toString("utf8", 32, end), proof: payload.subarray(end + 2, end + 2 + length) };
}

export const ok = Buffer.from([0, 0, 0, 2, 0, 0, 0]);
const endOfRows = Buffer.from([254, 0, 0, 2, 0]);

export function refusal(number: number, state: string): Buffer {
  const code = Buffer.alloc(2);
  code.writeUInt16LE(number);
  return Buffer.concat([Buffer.from([255]), code, Buffer.from(`#${state}what a server says`)]);
}

/** A server asks a client that has answered the hello for the password in another way. */
export const switchTo = (plugin: string, data: Buffer): Buffer =>
  Buffer.concat([Buffer.from([254]), Buffer.from(`${plugin}\0`), data, Buffer.from([0])]);

/** One row of one text. */
export function row(text: string): readonly Buffer[] {
  const lengthEncoded = (each: string) => Buffer.concat([Buffer.from([Buffer.byteLength(each)]), Buffer.from(each)]);
  const names = ["def", "", "", "", "value", ""].map(lengthEncoded);
  const kind = Buffer.from([12, 45, 0, 0, 1, 0, 0, 253, 0, 0, 0, 0, 0]);
  return [Buffer.from([1]), Buffer.concat([...names, kind]), endOfRows, lengthEncoded(text), endOfRows];
}
