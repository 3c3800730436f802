import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { DatabaseStatusSource } from "../../../src/server/certificates/ocsp-source.ts";
import { useServer } from "../../harness/server.ts";
import { pagesTouched, plansOf, statementsDuring, stepsOf } from "../auth/query-plans.ts";
import { Authorities } from "./authorities.ts";
import { ask, issueFrom, probe, responderOf, revoke } from "./ocsp.ts";

/** A serial number that nobody has. */
const noSerialNumber = () => `41${randomBytes(19).toString("hex")}`;
/** OCSP knows whole seconds. */
const seconds = (time: string | Date) => new Date(Math.floor(new Date(time).getTime() / 1000) * 1000);

describe("The OCSP responder of a server", () => {
  const server = useServer();
  const authorities = new Authorities(server);
  const responder = () => responderOf(server.server);

  it("says good of what was issued, revoked with time and reason of what was revoked, unknown of all other numbers", async () => {
    const root = await authorities.root();
    const [good, revoked] = [await issueFrom(server, root), await issueFrom(server, root)] as const;
    await revoke(server, revoked, "key_compromise");
    const { body: record } = await server.admin.rest("GET", `/api/v1/certificates/${revoked.id}`);

    const answers = [];
    for (const number of [good.serial_number, revoked.serial_number, noSerialNumber()])
      answers.push(await ask(responder(), root, number));

    expect(answers.map(({ said }) => said)).to.deep.equal(["good", "revoked", "unknown"]);
    expect(answers[1]).to.deep.include({ at: seconds(record.revoked_at), reason: "keyCompromise" });
  });

  it("answers for authorities too, their own certificates and those of responders", async () => {
    const root = await authorities.root();
    const below = await authorities.below(root);
    const [signer] = await server.sql(
      `select s.serial_number from certificate_status s join ocsp_signer o on o.ca_id = s.ca_id
       where s.ca_id = $1 and s.not_after = o.not_after`,
      [root.id],
    );

    for (const number of [root.serial_number, below.serial_number, signer.serial_number])
      expect((await ask(responder(), root, number)).said).to.equal("good");
  });

  it("shows a revocation at every replica with the very next answer, whatever it remembers", async () => {
    const replica = await server.startReplica({}, ["ocsp"]);
    const root = await authorities.root();
    const certificate = await issueFrom(server, root);
    const askBoth = (nonce?: null) =>
      Promise.all(
        [server.server, replica].map((each) =>
          ask(responderOf(each), root, certificate.serial_number, nonce === null ? { nonce } : {}),
        ),
      );
    const before = await askBoth(null);

    await revoke(server, certificate);
    const after = [...(await askBoth(null)), ...(await askBoth())];

    expect(before.map(({ said }) => said)).to.deep.equal(["good", "good"]);
    expect(after.map(({ said, reason }) => `${said} ${reason}`)).to.deep.equal(after.map(() => "revoked superseded"));
  });

  it("says of what a revoked authority issued that it is revoked as that is; what was revoked before stays as it was", async () => {
    const root = await authorities.root();
    const middle = await authorities.below(root, { max_path_length: 1 });
    const last = await authorities.below(middle);
    const [issued, earlier] = [await issueFrom(server, last), await issueFrom(server, last)] as const;
    await revoke(server, earlier, "affiliation_changed");
    const { body: before } = await server.admin.rest("GET", `/api/v1/certificates/${earlier.id}`);
    await server.sql(
      "update certificate_status set revoked_at = revoked_at - interval '1 hour' where serial_number = $1",
      [earlier.serial_number],
    );

    const { body: revoked } = await authorities.revoke(middle.id, { reason: "cessation_of_operation" });

    const at = seconds(revoked.revoked_at);
    const ended = { said: "revoked", at, reason: "cessationOfOperation" };
    expect(await ask(responder(), root, middle.serial_number)).to.deep.include(ended);
    expect(await ask(responder(), middle, last.serial_number)).to.deep.include(ended);
    expect(await ask(responder(), last, issued.serial_number)).to.deep.include(ended);
    expect(await ask(responder(), last, earlier.serial_number)).to.deep.include({
      said: "revoked",
      at: new Date(seconds(before.revoked_at).getTime() - 3_600_000),
      reason: "affiliationChanged",
    });
    expect((await ask(responder(), root, root.serial_number)).said).to.equal("good");
  });

  it("knows an authority by each hash, and from others of the same name by its key", async () => {
    const [root, namesake] = [await authorities.root(), await authorities.root()] as const;

    for (const hash of ["sha1", "sha256", "sha384", "sha512"] as const)
      expect((await ask(responder(), root, root.serial_number, { hash })).said).to.equal("good");
    expect((await ask(responder(), root, root.serial_number, { hash: "md5" })).said).to.equal("unauthorized");
    expect((await ask(responder(), root, namesake.serial_number)).said).to.equal("unknown");
    expect((await ask(responder(), namesake, namesake.serial_number)).said).to.equal("good");
  });

  it("counts its authorities, and certificates in the system health record", async () => {
    const { body: before } = await server.admin.rest("GET", "/api/v1/health/system");
    await issueFrom(server, await authorities.root());

    const { body: after } = await server.admin.rest("GET", "/api/v1/health/system");
    const [{ count }] = await server.sql("select count(*)::int from certificate_authority");

    expect(after.statistics.total_certificates).to.equal(before.statistics.total_certificates + 1);
    expect(after.components.ocsp.status).to.equal("healthy");
    await new Promise((resolve) => setTimeout(resolve, 1050));
    const health = await probe(responder(), "health");
    expect(health.status).to.equal(200);
    expect(health.body).to.deep.equal({
      status: "healthy",
      components: { database: "connected", signing_key: "loaded", ca_certificates: count },
    });
  });

  it("takes an authority for another's soon after it was removed", async () => {
    const root = await authorities.root();
    await ask(responder(), root, root.serial_number);
    await server.sql("delete from certificate_authority where id = $1", [root.id]);

    const now = performance.now.bind(performance);
    performance.now = () => now() + 61_000;
    try {
      expect((await ask(responder(), root, root.serial_number)).said).to.equal("unauthorized");
    } finally {
      performance.now = now;
    }
  });

  describe("asks the database", () => {
    it("for its own state once at a time, however long that takes", async () => {
      const { seal, logger } = server.server.core;
      const answered = Promise.withResolvers<never[]>();
      let asked = 0;
      const slow = {
        query: <Row>() => {
          asked += 1;
          return answered.promise as Promise<Row[]>;
        },
      };
      const source = new DatabaseStatusSource(slow, seal, logger);

      const states = [source.state()];
      const now = performance.now.bind(performance);
      performance.now = () => now() + 5000;
      try {
        states.push(source.state());
      } finally {
        performance.now = now;
      }
      answered.resolve([]);

      const state = { databaseConnected: true, certificateAuthorities: 0, signingKeys: 0 };
      expect(await Promise.all(states)).to.deep.equal([state, state]);
      expect(asked).to.equal(1);
    });

    it("once for all that is asked in one turn, and for each question answers its own certificate", async () => {
      const { db, seal, logger } = server.server.core;
      const root = await authorities.root();
      const certificates = await Promise.all(Array.from({ length: 5 }, () => issueFrom(server, root)));
      await revoke(server, certificates[2]);
      const statements: string[] = [];
      const counting = {
        query: <Row>(text: string, values: readonly unknown[]) => {
          statements.push(text);
          return db.query<Row>(text, values);
        },
      };
      const source = new DatabaseStatusSource(counting, seal, logger);
      const questions = certificates.flatMap(({ serial_number: serialNumber }) => [
        { authorityId: root.id, serialNumber },
        { authorityId: root.id, serialNumber: noSerialNumber() },
        { authorityId: randomUUID(), serialNumber },
      ]);

      const answers = await Promise.all([
        source.states(questions),
        ...questions.map((question) => source.states([question]).then(([state]) => state)),
      ]);

      const [together, ...alone] = answers;
      const expected = certificates.flatMap((_, index) => [index === 2 ? "revoked" : "good", "unknown", "unknown"]);
      const said = (state: unknown) =>
        state === undefined ? "unknown" : (state as { revoked?: unknown }).revoked === undefined ? "good" : "revoked";
      expect((together as unknown[]).map(said)).to.deep.equal(expected);
      expect(alone.map(said)).to.deep.equal(expected);
      expect(statements).to.have.length(1);
    });

    it("neither for an authority that it knows, nor again for one that was nobody's a moment ago", async () => {
      const root = await authorities.root();
      const foreign = await authorities.root();
      await server.sql("delete from issuer_hash where ca_id = $1", [foreign.id]);
      for (const each of [root, foreign]) await ask(responder(), each, root.serial_number);

      const statements = await statementsDuring(server, async () => {
        expect((await ask(responder(), root, root.serial_number)).said).to.equal("good");
        expect((await ask(responder(), foreign, root.serial_number)).said).to.equal("unauthorized");
      });

      expect(statements.filter(({ text }) => text.includes("issuer_hash"))).to.deep.equal([]);
      expect(statements.filter(({ text }) => text.includes("certificate_status"))).to.have.length(1);
    });

    it("by the whole of the primary key, also while PostgreSQL knows nothing of a new authority", async () => {
      const root = await authorities.root();
      const many = Array.from({ length: 20 }, noSerialNumber);
      await server.sql(
        `insert into certificate_status (ca_id, serial_number, organization_id, not_after)
         select $1, number, $2, now() + interval '1 year' from unnest($3::text[]) as number`,
        [root.id, root.organization_id, many],
      );
      const { db, seal, logger } = server.server.core;
      const source = new DatabaseStatusSource(db, seal, logger);

      const statements = await statementsDuring(server, () =>
        source.states(many.map((serialNumber) => ({ authorityId: root.id, serialNumber }))),
      );
      const plans = await plansOf(server.databaseUrl, statements);

      const steps = plans.flatMap(({ root: step }) => stepsOf(step));
      const found = steps.filter((step) => step["Relation Name"] === "certificate_status");
      expect(found).to.have.length(plans.length);
      for (const step of found) expect(step["Index Cond"]).to.include("ca_id").and.include("serial_number");
    });

    it("by indexes, however many certificates there are", async () => {
      const root = await authorities.root();
      await server.sql(
        `insert into certificate_status (ca_id, serial_number, organization_id, not_after)
         select $1, '41' || lpad(to_hex(n), 38, '0'), $2, now() + interval '1 year' from generate_series(1, 50000) n`,
        [root.id, root.organization_id],
      );
      await server.sql("analyze certificate_status, certificate_authority, issuer_hash, ocsp_signer");
      const replica = await server.startReplica({}, ["ocsp"]);

      const statements = await statementsDuring(server, async () => {
        expect((await ask(responderOf(replica), root, root.serial_number)).said).to.equal("good");
      });
      const asked = statements.filter(({ text }) => /certificate_status|ocsp_signer/.test(text));
      const plans = await plansOf(server.databaseUrl, asked);

      expect(asked).to.have.length(2);
      for (const plan of plans) expect(pagesTouched(plan.root)).to.be.below(100);
    });
  });
});
