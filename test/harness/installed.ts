import { spawnSync } from "node:child_process";

/** Says so and is true where a program is not installed, whatever it makes of --version. */
export function isMissing(program: string): boolean {
  const isMissing = spawnSync(program, ["--version"]).error !== undefined;
  if (isMissing) console.log(`      (${program} is not installed here)`);
  return isMissing;
}
