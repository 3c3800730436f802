import { createHash } from "node:crypto";
import { appendFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type { Applied } from "./evidence.ts";

// The command that the gateways of a drill run: in place of a target that would get the value, a file hears of it.

const [, , journal = "", gateway = "", workMs = ""] = process.argv;
const { action, task_id, secret_id, value } = JSON.parse(await text(process.stdin));
if (action === "apply") {
  await sleep(Number(workMs));
  const hash = createHash("sha256").update(value).digest("hex");
  const applied: Applied = { gateway, task: task_id, secret: secret_id, hash };
  // One write, so that the lines of two that end together do not mix.
  appendFileSync(journal, `${JSON.stringify(applied)}\n`);
}
