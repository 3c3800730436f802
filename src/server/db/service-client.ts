import type { Socket } from "node:net";
import pg from "pg";

const statementNames = new Map<string, string>();
const mostNames = 500;
type Release = (error?: Error | boolean) => void;

/**
 * The PostgreSQL client behind the pool: names every statement that has bound values, so that the server parses it
 * once, and gives its slot of the pool back when the connection dies inside a transaction or stops answering.
 */
export class ServiceClient extends pg.Client {
  #release: Release | undefined;

  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.on("error", () => {});
    this.once("end", () => this.#release?.(new Error("connection lost")));
  }

  // The pool assigns `release` at each checkout and calls it once; a connection that ends must not call it again.
  get release(): Release | undefined {
    return this.#release;
  }

  set release(release: Release | undefined) {
    let done = false;
    this.#release =
      release &&
      ((error) => {
        if (done) return;
        done = true;
        release(error);
      });
  }

  // @ts-expect-error one signature for the overloads of pg
  override query(statement: unknown, values: unknown, callback: unknown): unknown {
    if (typeof statement === "string" && Array.isArray(values) && values.length > 0) {
      const name = nameOf(statement);
      if (name !== undefined)
        return this.#cutWhenSilent(super.query({ name, text: statement, values }, callback as never));
    }
    return this.#cutWhenSilent(super.query(statement as never, values as never, callback as never));
  }

  /** After a read timeout the answer may still come and would belong to nobody: the connection is of no more use. */
  #cutWhenSilent(answer: unknown): unknown {
    if (answer instanceof Promise) {
      answer.catch((error: Error) => {
        if (error.message === "Query read timeout")
          (this as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
      });
    }
    return answer;
  }
}

function nameOf(text: string): string | undefined {
  let name = statementNames.get(text);
  if (name === undefined && statementNames.size < mostNames) {
    name = `s${statementNames.size}`;
    statementNames.set(text, name);
  }
  return name;
}
