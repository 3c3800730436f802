import { rewrap } from "../../../src/server/admin/rewrap.ts";
import { explainStart } from "../../../src/server/explain-start.ts";

// What `holdfast admin rewrap` does, as a process that a test can kill: a line of JSON for each step, the summary last.

const say = (what: object) => console.log(JSON.stringify(what));

try {
  const summary = await rewrap({ progress: say, signal: new AbortController().signal });
  say({ summary });
} catch (error) {
  say({ refused: explainStart(error) });
}
