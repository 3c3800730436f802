import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

// `npm run verify`: everything that must hold before a change lands, the quick checks first. Stops at the first that fails.

const root = fileURLToPath(new URL("..", import.meta.url));

interface Step {
  readonly name: string;
  readonly command: readonly string[];
}

const steps: readonly Step[] = [
  { name: "proto format", command: ["buf", "format", "-d", "--exit-code", "proto"] },
  { name: "format", command: ["biome", "check", "--error-on-warnings"] },
  { name: "proto lint", command: ["buf", "lint"] },
  {
    name: "proto compatibility",
    command: ["buf", "breaking", "proto", "--against", "proto/baseline.binpb", "--exclude-imports"],
  },
  { name: "types", command: ["tsc", "-p", "."] },
  { name: "lint", command: ["oxlint", "--type-aware", "--deny-warnings", "src", "test"] },
  { name: "migrations", command: ["npm", "run", "--silent", "migration"] },
  { name: "tests", command: ["npm", "test"] },
];

/** A digest of everything in a folder, to see whether generating it anew changes it. */
function digest(folder: string): string {
  const hash = createHash("sha256");
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" }).sort()) {
    const path = join(folder, name);
    if (statSync(path).isFile())
      hash.update(relative(folder, path)).update("\0").update(readFileSync(path)).update("\0");
  }
  return hash.digest("hex");
}

function run({ name, command: [program = "", ...args] }: Step): void {
  const start = performance.now();
  console.log(`\n== ${name}`);
  const { status } = spawnSync(program, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  if (status !== 0) {
    console.error(`verify: ${name} failed`);
    process.exit(1);
  }
  console.log(`== ${name}: ok (${((performance.now() - start) / 1000).toFixed(1)} s)`);
}

// First, since the module of validate.proto is made by it and the other proto checks need that.
const gen = join(root, "gen");
const before = ["ts", "openapi.json"].map((part) =>
  part === "ts" ? digest(join(gen, part)) : readFileSync(join(gen, part), "utf8"),
);
run({ name: "generated code", command: ["npm", "run", "--silent", "generate"] });
const after = ["ts", "openapi.json"].map((part) =>
  part === "ts" ? digest(join(gen, part)) : readFileSync(join(gen, part), "utf8"),
);
if (before.join() !== after.join()) {
  console.error("verify: gen was stale; it has been made anew, commit it");
  process.exit(1);
}
for (const step of steps) run(step);
