import { expect } from "chai";
import { purgeJob } from "../../../src/server/agents/purge.ts";
import { Host } from "../../harness/host.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const purge = () => purgeJob(server.server.core).run({});
const ids = (rows: { id: string }[]) => rows.map(({ id }) => id).sort();

describe("The purge of what agents leave", () => {
  it("removes requests that are over with what was sent for them, and no others", async () => {
    const host = await Host.enroll(server);
    host.close();
    const add = async (ended: string) => {
      const [row] = await server.sql(
        `insert into agent_command (organization_id, agent_id, file_path, expected_hash, status, upload, expires_at)
         select organization_id, id, '/etc/krb5.keytab', '', 'uploaded', '\\x00', now() + $2::interval
         from agent where id = $1 returning id, organization_id`,
        [host.id, ended],
      );
      await server.sql("insert into data_key (record_id, organization_id, wrapped) values ($1, $2, '\\x00')", [
        row.id,
        row.organization_id,
      ]);
      return row.id as string;
    };
    const old = await add("-10 minutes");
    const kept = [await add("-1 minute"), await add("20 seconds")];
    const secret = await server.secret();

    await purge();

    expect(ids(await server.sql("select id from agent_command"))).to.deep.equal(kept.toSorted());
    const keys = ids(await server.sql("select record_id as id from data_key"));
    expect(keys).to.include.members([...kept, secret.id]);
    expect(keys).not.to.include(old);
  });

  it("removes enrollment tokens a day after they were used or have expired", async () => {
    await server.sql("delete from agent_enrollment_token");
    const add = async (used: string | null, expires: string) => {
      const { body } = await server.admin.rest("POST", "/api/v1/agents/enrollment-tokens", {});
      await server.sql(
        "update agent_enrollment_token set used_at = now() + $2::interval, expires_at = now() + $3::interval where id = $1",
        [body.id, used, expires],
      );
      return body.id as string;
    };
    await add("-25 hours", "1 hour");
    await add(null, "-25 hours");
    const kept = [await add("-23 hours", "1 hour"), await add(null, "-23 hours"), await add(null, "1 hour")];

    await purge();

    expect(ids(await server.sql("select id from agent_enrollment_token"))).to.deep.equal(kept.toSorted());
  });
});
