import type { ServerResponse } from "node:http";

/** What a server of a test does instead of answering as it should, having done what it was asked for, or not. */
export interface Trouble {
  readonly done: boolean;
  readonly answer: (response: ServerResponse) => void;
}

const trouble = (answer: Trouble["answer"], done = false): Trouble => ({ done, answer });

/** Takes the request and never answers. */
export const hangs = (options: { readonly done: boolean }): Trouble => trouble(() => {}, options.done);

/** Ends the connection without a word. */
export const breaksOff = (options: { readonly done: boolean }): Trouble =>
  trouble((response) => response.destroy(), options.done);

/** Ends the connection in the middle of the answer. */
export const cutsShort = trouble((response) => {
  response.writeHead(200, { "content-type": "application/json", "content-length": 1000 });
  response.write('{"kind":"Secret","metadata":{"na', () => response.destroy());
});

/** Says yes, and then nothing that is understood. */
export const answersGarbage = trouble((response) =>
  response.writeHead(200, { "content-type": "application/json" }).end("<html>Please log in</html>"),
);

/** Answers more than anybody wants to read. */
export const answersTooMuch = trouble((response) => {
  response.writeHead(200, { "content-type": "application/json" }).end(`{"a":"${"a".repeat(8 * 1024 * 1024)}"}`);
});

/** Answers, and never comes to an end. */
export const answersForever = trouble((response) => {
  const more = () => {
    while (!response.destroyed && response.write('{"a":'.repeat(8192)));
  };
  response.writeHead(200, { "content-type": "application/json" }).on("drain", more);
  more();
});

export const redirectsTo = (location: string): Trouble =>
  trouble((response) => response.writeHead(307, { location }).end());

/** Answers this status. */
export const answers = (status: number, body = "", headers: Record<string, string> = {}): Trouble =>
  trouble((response) => response.writeHead(status, { "content-type": "application/json", ...headers }).end(body));
