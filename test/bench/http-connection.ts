import { connect, type Socket } from "node:net";

/** An HTTP/1.1 answer, as far as a load client looks at it. */
export interface Answer {
  readonly status: number;
  /** The head, and the body as far as it came with the head. */
  readonly beginning: Buffer;
}

const headEnd = Buffer.from("\r\n\r\n");
const contentLength = /\r\ncontent-length: *(\d+)/i;
const noBytes = Buffer.alloc(0);

/**
 * One keep-alive connection with one request at a time. It reads an answer by its content-length and looks at nothing
 * else: the client has to be cheap, since it runs on the same cores as what it measures.
 */
export class HttpConnection {
  readonly #socket: Socket;
  #answered: (answer: Answer) => void = () => {};
  #failed: (error: Error) => void = () => {};
  #beginning: Buffer = noBytes;
  #status = 0;
  /** Bytes still to come; undefined until the head was read. */
  #left: number | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("error", (error) => this.#failed(error));
    socket.on("close", () => this.#failed(new Error("the server closed the connection")));
  }

  static open(port: number): Promise<HttpConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: "127.0.0.1", noDelay: true });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.off("error", reject);
        resolve(new HttpConnection(socket));
      });
    });
  }

  /** Sends a request and calls back once it was answered in full. */
  exchange(request: string | Buffer, answered: (answer: Answer) => void, failed: (error: Error) => void): void {
    this.#answered = answered;
    this.#failed = failed;
    this.#socket.write(request);
  }

  close(): void {
    this.#failed = () => {};
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    if (this.#left === undefined) {
      this.#beginning = this.#beginning.length === 0 ? chunk : Buffer.concat([this.#beginning, chunk]);
      const end = this.#beginning.indexOf(headEnd);
      if (end === -1) return;
      const head = this.#beginning.toString("latin1", 0, end);
      this.#status = Number(head.slice(9, 12));
      const bodyLength = Number(contentLength.exec(head)?.[1] ?? 0);
      this.#left = end + headEnd.length + bodyLength - this.#beginning.length;
    } else this.#left -= chunk.length;
    if (this.#left > 0) return;
    const answer = { status: this.#status, beginning: this.#beginning };
    this.#left = undefined;
    this.#beginning = noBytes;
    this.#answered(answer);
  }
}
