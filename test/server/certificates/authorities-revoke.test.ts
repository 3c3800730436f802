import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { isWaitedFor, withOpenTransaction } from "../gateways/open-transaction.ts";
import { Authorities, type AuthorityRecord, authoritiesPath, intermediateOf } from "./authorities.ts";

const server = useServer();
const authorities = new Authorities(server);

/** A root, an authority below it, and one below that. */
async function threeLevels(): Promise<[AuthorityRecord, AuthorityRecord, AuthorityRecord]> {
  const root = await authorities.root();
  const middle = await authorities.below(root, { max_path_length: 1 });
  return [root, middle, await authorities.below(middle)];
}

/** Lets no list be due, and answers which were asked for since. */
async function listsRequestedBy(work: () => Promise<unknown>): Promise<string[]> {
  await server.sql("update crl set due_at = now() + interval '1 day'");
  await work();
  return (await server.sql("select ca_id from crl where due_at <= now()")).map(({ ca_id }) => ca_id);
}

const eventsOf = (id: string) =>
  server.sql(
    "select outcome, resource_name, details::jsonb from audit_event where action = 'ca.revoke' and resource_id = $1 order by sequence",
    [id],
  );

describe("RevokeCertificateAuthority", () => {
  it("revokes an authority and all below it, and what their issuers say of their certificates", async () => {
    const [root, middle, last] = await threeLevels();
    const beside = await authorities.below(root);

    const { status, body } = await authorities.revoke(middle.id, { reason: "superseded" });

    expect(status).to.equal(200);
    expect([body.status, body.revocation_reason, body.updated_at]).to.deep.equal([
      "revoked",
      "superseded",
      body.revoked_at,
    ]);
    expect(await authorities.get(middle.id)).to.deep.equal(body);
    for (const authority of [middle, last]) {
      const { status: now, revoked_at: at, revocation_reason: reason } = await authorities.get(authority.id);
      expect([now, at, reason]).to.deep.equal(["revoked", body.revoked_at, "superseded"]);
      const told = await authorities.statusOf(authority);
      expect([told.revoked_at.toISOString(), told.revocation_reason]).to.deep.equal([at, "superseded"]);
    }
    for (const authority of [root, beside]) {
      expect(await authorities.get(authority.id)).to.deep.equal(authority);
      expect((await authorities.statusOf(authority)).revoked_at).to.equal(null);
    }
  });

  it("takes unspecified as the reason unless one is given, and none that is not in the list", async () => {
    const root = await authorities.root();

    const bad = await authorities.revoke(root.id, { reason: "certificate_hold" });
    const { body } = await authorities.revoke(root.id);

    expect([bad.status, bad.body.error.details[0].field]).to.deep.equal([400, "reason"]);
    expect(body.revocation_reason).to.equal("unspecified");
  });

  it("revokes one that is disabled or has expired, too", async () => {
    const [disabled, expired] = [await authorities.root(), await authorities.root()] as const;
    await authorities.put(disabled.id, { status: "disabled" });
    await authorities.expire(expired.id);

    for (const { id } of [disabled, expired]) {
      expect((await authorities.revoke(id)).body.status).to.equal("revoked");
    }
  });

  it("changes nothing when it is repeated, but that any reason may become key_compromise", async () => {
    const [root, middle] = await threeLevels();
    const { body: first } = await authorities.revoke(root.id, { reason: "cessation_of_operation" });

    const again = await authorities.revoke(root.id, { reason: "superseded" });
    expect([again.status, again.body]).to.deep.equal([200, first]);

    const { body: worse } = await authorities.revoke(root.id, { reason: "key_compromise" });
    expect([worse.revocation_reason, worse.revoked_at]).to.deep.equal(["key_compromise", first.revoked_at]);
    expect((await authorities.statusOf(root)).revocation_reason).to.equal("key_compromise");
    expect((await authorities.get(middle.id)).revocation_reason).to.equal("key_compromise");

    const back = await authorities.revoke(root.id, { reason: "unspecified" });
    expect([back.status, back.body]).to.deep.equal([200, worse]);
  });

  it("leaves to those below it that were revoked before their own time and reason", async () => {
    const [root, middle, last] = await threeLevels();
    await authorities.revoke(last.id, { reason: "superseded" });
    const before = await authorities.get(last.id);

    await authorities.revoke(root.id, { reason: "cessation_of_operation" });
    await authorities.revoke(root.id, { reason: "key_compromise" });

    expect(await authorities.get(last.id)).to.deep.equal(before);
    expect((await authorities.statusOf(last)).revocation_reason).to.equal("superseded");
    expect((await authorities.get(middle.id)).revocation_reason).to.equal("key_compromise");
  });

  it("asks for new lists of the authority, of its issuer, and of all below it, once something has changed", async () => {
    const [root, middle, last] = await threeLevels();
    await authorities.below(root);

    const requested = await listsRequestedBy(() => authorities.revoke(middle.id));
    const repeated = await listsRequestedBy(() => authorities.revoke(middle.id));

    expect(requested).to.have.members([root.id, middle.id, last.id]);
    expect(repeated).to.deep.equal([]);
  });

  it("is recorded for each authority that it revokes, with the reason, and how many there were", async () => {
    const [root, middle] = await threeLevels();

    await authorities.revoke(root.id, { reason: "superseded" });
    await authorities.revoke(root.id);

    const event = { outcome: "success", resource_name: root.name };
    expect(await eventsOf(root.id)).to.deep.equal([
      { ...event, details: { reason: "superseded", authorities: 3 } },
      { ...event, details: { reason: "unspecified", authorities: 0 } },
    ]);
    expect(await eventsOf(middle.id)).to.deep.equal([
      { outcome: "success", resource_name: middle.name, details: { reason: "superseded", revoked_with: root.id } },
    ]);
  });

  it("waits for an authority that is being made below, and revokes that too", async () => {
    const [root, middle, last] = await threeLevels();

    await withOpenTransaction(server, async (session) => {
      await session.query("select 1 from certificate_authority where id = $1 for share", [middle.id]);
      const revoking = authorities.revoke(root.id);
      await isWaitedFor(session);
      const { rows } = await session.query(
        `insert into certificate_authority (organization_id, name, type, parent_id, subject, serial_number, key_algorithm,
           key_size, certificate, chain_pem, fingerprint_sha256, not_before, not_after, sealed_key, created_by)
         select organization_id, 'late ' || id, type, $1, subject, serial_number, key_algorithm, key_size, certificate,
           chain_pem, fingerprint_sha256, not_before, not_after, sealed_key, created_by
         from certificate_authority where id = $2 returning id`,
        [middle.id, last.id],
      );
      await session.query("commit");
      expect((await revoking).status).to.equal(200);

      expect((await authorities.get(rows[0].id)).status).to.equal("revoked");
    });
  });

  it("lets no authority be made below it any more, not even one that was begun before", async () => {
    const root = await authorities.root();

    await withOpenTransaction(server, async (session) => {
      await session.query("update certificate_authority set status = 'revoked' where id = $1", [root.id]);
      const making = authorities.post(intermediateOf(root));
      await isWaitedFor(session);
      await session.query("commit");

      const { status, body } = await making;
      expect([status, body.error.message]).to.deep.equal([409, "the parent certificate authority is revoked"]);
    });
  });

  it("leaves nothing active below what is revoked, however many are made and revoked at once", async () => {
    const root = await authorities.root();
    const middle = await authorities.below(root, { max_path_length: 1 });

    const made = Array.from({ length: 6 }, (_, index) => authorities.post(intermediateOf(index % 2 ? root : middle)));
    const revoked = [authorities.revoke(middle.id), authorities.revoke(root.id)];
    const answers = await Promise.all([...made, ...revoked]);

    for (const { status } of answers) expect(status).to.be.oneOf([200, 201, 409]);
    const { body } = await server.admin.rest("GET", authoritiesPath(undefined, "?status=active&per_page=100"));
    const parents = body.data.map(({ parent_id }: AuthorityRecord) => parent_id);
    expect(parents).not.to.include(root.id);
    expect(parents).not.to.include(middle.id);
    expect((await authorities.get(middle.id)).status).to.equal("revoked");
  });
});
