// oxlint-disable eslint/no-control-regex -- A protocol of bytes has them.

/** What a server may say to a client that logs in and runs a statement (PostgreSQL's message formats), in Latin-1. */
const shapes: Readonly<Record<string, RegExp>> = {
  // Authentication: done, in the clear, MD5, SASL and its two answers.
  R: /^\0\0\0([\0\x03]|\x05.{4}|\x0a([^\0]+\0)+\0|[\x0b\x0c].+)$/s,
  // ParameterStatus
  S: /^[^\0]+\0[^\0]*\0$/,
  // BackendKeyData
  K: /^.{8,260}$/s,
  // ReadyForQuery
  Z: /^[ITE]$/,
  // ErrorResponse and NoticeResponse: without an end the client would look for it for ever.
  E: /^([^\0]+\0)+\0$/,
  N: /^([^\0]+\0)+\0$/,
  // RowDescription of one column, and DataRow
  T: /^\0\x01[^\0]*\0.{18}$/s,
  D: /^\0\x01.{4,}$/s,
  // CommandComplete
  C: /^[^\0]+\0$/,
};

const headerBytes = 5;
const mostBytes = 64 * 1024;

/** Cuts what a server sends into messages, and lets only those through that a client may be given. */
export class PostgresMessages {
  #received: Buffer = Buffer.alloc(0);

  /** The messages that are complete with this chunk. Throws when one is none, or none that belongs here. */
  *read(chunk: Buffer): Generator<Buffer> {
    this.#received = Buffer.concat([this.#received, chunk]);
    while (this.#received.length >= headerBytes) {
      const end = 1 + this.#received.readUInt32BE(1);
      if (end < headerBytes || end > mostBytes) throw new Error("a message of no permitted length");
      if (this.#received.length < end) return;
      const message = this.#received.subarray(0, end);
      this.#received = this.#received.subarray(end);
      const shape = shapes[String.fromCharCode(message[0] as number)];
      if (shape?.test(message.toString("latin1", headerBytes)) !== true) throw new Error("an unexpected message");
      yield message;
    }
  }
}
