import { parseKeytab } from "../../src/standards/keytab.ts";
import { newKeytab } from "../harness/keytabs.ts";
import { compare } from "./compare.ts";
import { uniquePlace } from "./load.ts";
import type { Effort } from "./options.ts";
import type { Holdfast, Stage } from "./stage.ts";
import { httpSubject, post } from "./subjects.ts";
import type { Line } from "./table.ts";

const connections = 16;

/** How fast keytabs are imported, each of them another file. */
export async function measureImports(stage: Stage, server: Holdfast, effort: Effort): Promise<Line[]> {
  const load = stage.http();
  const requests = [post("/api/v1/keytabs", { name: "web server", keytab_data: uniqueKeytab() }, server.api.token)];
  const floor = await stage.floor("F5");
  const lines = await compare(
    {
      name: "import a keytab",
      ours: httpSubject("REST", server, load, { requests, expectedStatus: 201 }),
      against: [{ subject: httpSubject("F5", floor, load, { requests, expectedStatus: 200 }) }],
    },
    { ...effort, connections: [connections] },
  );
  await floor.stop();
  return lines;
}

/** A file in Base64, in whose key something is left to fill in: any letters and digits there are bytes of a key. */
function uniqueKeytab(): string {
  const bytes = newKeytab();
  const [{ key }] = parseKeytab(bytes).entries;
  const at = Math.ceil(key.offset / 3) * 4;
  const encoded = bytes.toString("base64");
  return `${encoded.slice(0, at)}${uniquePlace}${encoded.slice(at + uniquePlace.length)}`;
}
