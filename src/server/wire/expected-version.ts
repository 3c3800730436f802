import { conflict } from "../errors.ts";

/** Refuses a change that was meant for another version (G-0.14). */
export function expectVersion(record: { readonly version: number }, expected: number | undefined): void {
  if (expected === undefined || expected === record.version) return;
  const message = `the current version is ${record.version}`;
  throw conflict(message, [{ field: "expected_version", message }]);
}
