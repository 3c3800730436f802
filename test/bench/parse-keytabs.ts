import { createHash, randomBytes } from "node:crypto";
import { maxKeytabBytes, maxKeytabEntries, parseKeytab } from "../../src/standards/keytab.ts";
import { keytabWriter, readable, version2 } from "../standards/keytab-files.ts";
import type { Effort } from "./options.ts";
import { median } from "./subjects.ts";
import type { Line } from "./table.ts";

/** How fast files are parsed, in this process, beside the hash that is part of it. */
export function measureParsing({ rounds, warmUpMs, measureMs }: Effort): Line[] {
  const sets = {
    "the fixtures": readable.map(({ bytes }) => bytes),
    [`1 MiB with ${maxKeytabEntries} entries`]: [largestKeytab()],
  };
  return Object.entries(sets).map(([name, files]) => {
    const filesPerSecond = (work: (file: Buffer) => unknown) => {
      perSecond(files, work, warmUpMs);
      return median(Array.from({ length: rounds }, () => perSecond(files, work, measureMs)));
    };
    const [parsed, hashed] = [filesPerSecond(parseKeytab), filesPerSecond(hash)];
    const meanBytes = files.reduce((sum, { length }) => sum + length, 0) / files.length;
    return {
      scenario: `parse ${name}`,
      figure: (parsed * meanBytes) / 1e6,
      unit: "MB/s",
      ours: parsed,
      against: "SHA-256 alone",
      theirs: hashed,
    };
  });
}

const hash = (file: Buffer) => createHash("sha256").update(file).digest("hex");

function perSecond(files: readonly Buffer[], work: (file: Buffer) => unknown, ms: number): number {
  const beganAt = performance.now();
  let done = 0;
  let tookMs = 0;
  for (; tookMs < ms; tookMs = performance.now() - beganAt) {
    for (const file of files) work(file);
    done += files.length;
  }
  return (done / tookMs) * 1000;
}

/** As many entries as a file may have, each of its own host, which fill it nearly. */
function largestKeytab(): Buffer {
  const { file, entry } = keytabWriter(version2);
  const entries = Array.from({ length: maxKeytabEntries }, (_, n) => {
    const host = `node-${String(n).padStart(5, "0")}.hosts.example.com`;
    return entry({ realm: "EXAMPLE.COM", components: ["host", host], enctype: 18, key: randomBytes(32), tail: 1 });
  });
  const bytes = file(...entries);
  if (bytes.length > maxKeytabBytes) throw new Error("the largest keytab became too large");
  return bytes;
}
