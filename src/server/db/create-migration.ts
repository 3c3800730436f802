import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPostgres } from "../../engines/engines.ts";
import { createLogger } from "../logging.ts";
import { entities } from "../server.ts";
import { Database } from "./database.ts";

/**
 * `npm run migration -- NAME` writes a migration that takes the schema from where the migrations leave it to where the
 * entities say it is. Without a name it only says what is missing, and fails when something is.
 */
const name = process.argv[2];
const folder = await mkdtemp(join(tmpdir(), "holdfast-migration-"));
const postgres = await startPostgres(folder);
const db = await Database.open({ url: postgres.url, poolSize: 2, entities, logger: createLogger("silent") });
try {
  await db.migrate();
  const sql = (await db.orm.schema.getUpdateSchemaSQL({ wrap: false })).trim();
  if (sql === "") console.log("the migrations agree with the entities");
  else if (name === undefined) {
    console.error(`the migrations lack:\n${sql}\nrun npm run migration -- NAME`);
    process.exitCode = 1;
  } else await write(name, sql);
} finally {
  await db.close();
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
}

async function write(title: string, sql: string): Promise<void> {
  const migrations = new URL("./migrations/", import.meta.url);
  const list = await readFile(new URL("list.ts", migrations), "utf8");
  const number = String((list.match(/^import /gm) ?? []).length).padStart(4, "0");
  const file = `${number}-${title}.ts`;
  const statements = sql
    .split(/;\s*\n/)
    .map((statement) => `    this.addSql(\`${statement.trim().replace(/;$/, "").replaceAll("`", "\\`")}\`);`);
  const text = `import { Migration } from "@mikro-orm/migrations";\n\nexport class Migration${number} extends Migration {\n  override up(): void {\n${statements.join("\n")}\n  }\n}\n`;
  await writeFile(new URL(file, migrations), text);
  const entry = `  { name: "${number}-${title}", class: Migration${number} },\n`;
  const imported = `import { Migration${number} } from "./${file}";\n`;
  await writeFile(
    new URL("list.ts", migrations),
    list.replace(/\n\/\*\*/, `${imported}\n/**`).replace(/,?\s*\];\n$/, `,\n${entry}];\n`),
  );
  console.log(`src/server/db/migrations/${file}: look it over, and keep it working on the schema before it`);
}
