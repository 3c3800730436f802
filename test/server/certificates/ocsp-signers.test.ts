import { X509Certificate } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { signerRenewalJob } from "../../../src/server/certificates/ocsp-renewal.ts";
import { signerPlace } from "../../../src/server/certificates/ocsp-signers.ts";
import { OpenedSigners } from "../../../src/server/certificates/opened-signers.ts";
import type { Core } from "../../../src/server/context.ts";
import { until } from "../../faults/own-engines.ts";
import { disguises } from "../../harness/leaks.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { ask, probe, responderOf } from "./ocsp.ts";

const dayMs = 86_400_000;

describe("OCSP signers", () => {
  const server = useServer();
  const authorities = new Authorities(server);
  const responder = () => responderOf(server.server);

  /** Those of an authority, the oldest first. */
  const signersOf = ({ id }: AuthorityRecord) =>
    server.sql("select * from ocsp_signer where ca_id = $1 order by not_after, id", [id]);
  /** Lets so much of the life of all its signers be over as if so many days had passed. */
  const age = ({ id }: AuthorityRecord, days: number) =>
    server.sql(
      `update ocsp_signer set not_before = not_before - make_interval(days => $2),
         not_after = not_after - make_interval(days => $2) where ca_id = $1`,
      [id, days],
    );
  const renew = (core: Core = server.server.core) => signerRenewalJob(core).run({});
  const askOf = (root: AuthorityRecord, at = responder()) => ask(at, root, root.serial_number);

  it("are there from the beginning: for 30 days, on P-256 whatever the authority signs with, and for OCSP only", async () => {
    const root = await authorities.root({ key_algorithm: "Ed25519" });

    const [signer, ...others] = await signersOf(root);

    const certificate = new X509Certificate(signer.certificate);
    expect(others).to.deep.equal([]);
    expect(certificate.checkIssued(new X509Certificate(root.certificate_pem))).to.equal(true);
    expect(certificate.verify(new X509Certificate(root.certificate_pem).publicKey)).to.equal(true);
    expect(certificate.publicKey.asymmetricKeyDetails).to.deep.equal({ namedCurve: "prime256v1" });
    expect(certificate.keyUsage).to.deep.equal(["1.3.6.1.5.5.7.3.9"]);
    expect(certificate.ca).to.equal(false);
    expect(certificate.validFromDate.getTime()).to.equal(signer.not_before.getTime()).and.to.be.below(Date.now());
    expect(certificate.validToDate.getTime()).to.equal(signer.not_after.getTime());
    expect(certificate.validToDate.getTime() - Date.now()).to.be.within(30 * dayMs - 60_000, 30 * dayMs);
    const [status] = await server.sql("select * from certificate_status where ca_id = $1 and serial_number = $2", [
      root.id,
      certificate.serialNumber.toLowerCase(),
    ]);
    expect(status).to.include({ organization_id: root.organization_id, revoked_at: null });
    expect(status.not_after).to.deep.equal(signer.not_after);
  });

  it("last no longer than their authority, and are followed by none then", async () => {
    const root = await authorities.root({ validity_days: 10 });
    const [signer] = await signersOf(root);
    await server.sql("update ocsp_signer set not_before = not_before - interval '20 days' where ca_id = $1", [root.id]);

    await renew();

    expect(signer.not_after.toISOString()).to.equal(root.not_after);
    expect(await signersOf(root)).to.have.length(1);
  });

  it("have keys that stand nowhere in clear", async () => {
    const root = await authorities.root();
    const { core } = server.server;
    const [{ id, organization_id, sealed_key }] = await signersOf(root);
    const [{ wrapped }] = await server.sql("select wrapped from data_key where record_id = $1", [id]);

    const key = await core.seal.dataKey(core.db, organization_id, id, wrapped);
    const pkcs8 = core.seal.open(key, signerPlace(organization_id, id), sealed_key);
    await askOf(root);

    // The private number of PKCS #8, which is what is secret of it.
    const secret = pkcs8.subarray(36, 68);
    const tables = ["ocsp_signer", "data_key", "certificate_status", "certificate_authority", "audit_event"];
    const rows = await Promise.all(tables.map((table) => server.sql(`select t::text as text from ${table} t`)));
    const seen =
      rows
        .flat()
        .map(({ text }) => text)
        .join("\n") + server.log;
    expect(seen).to.include(sealed_key.toString("hex"));
    expect(disguises(secret).filter((form) => seen.includes(form))).to.deep.equal([]);
  });

  it("are followed by others from half their life on, which are used as soon as they are seen", async () => {
    const [young, old] = [await authorities.root(), await authorities.root()] as const;
    const before = await askOf(old);
    await age(young, 14);
    await age(old, 16);

    await renew();
    await renew();

    const [first, second, ...more] = await signersOf(old);
    expect(await signersOf(young)).to.have.length(1);
    expect(more).to.deep.equal([]);
    expect(before.signer).to.deep.equal(first.certificate);
    await sleep(1050);
    await probe(responder(), "ready");
    expect((await askOf(old)).signer).to.deep.equal(second.certificate);
  });

  it("are looked for anew after a minute, beside the answers", async () => {
    const root = await authorities.root();
    const first = await askOf(root);
    await age(root, 16);
    await renew();
    const [, second] = await signersOf(root);
    const unmoved = await askOf(root);

    const now = performance.now.bind(performance);
    performance.now = () => now() + 61_000;
    try {
      await until(async () => (await askOf(root)).signer?.equals(second.certificate) === true);
    } finally {
      performance.now = now;
    }

    expect(unmoved.signer).to.deep.equal(first.signer);
  });

  it("are renewed once, however many replicas do it at a time", async () => {
    const replica = await server.startReplica({}, ["jobs"]);
    const aged = await Promise.all(Array.from({ length: 5 }, () => authorities.root()));
    for (const each of aged) await age(each, 20);

    await Promise.all([server.server, replica, server.server, replica].map(({ core }) => renew(core)));

    for (const each of aged) expect(await signersOf(each)).to.have.length(2);
  });

  it("of one authority that cannot sign keep no others from being renewed", async () => {
    const [broken, whole] = [await authorities.root(), await authorities.root()] as const;
    for (const each of [broken, whole]) await age(each, 20);
    const [{ wrapped }] = await server.sql("delete from data_key where record_id = $1 returning wrapped", [broken.id]);

    const error = await renew().then(
      () => undefined,
      (reason: Error) => reason.message,
    );
    const during = [await signersOf(broken), await signersOf(whole)].map(({ length }) => length);
    await server.sql("insert into data_key (record_id, organization_id, wrapped) values ($1, $2, $3)", [
      broken.id,
      broken.organization_id,
      wrapped,
    ]);
    await renew();

    expect(error).to.equal("OCSP signers that could not be renewed: 1");
    expect(during).to.deep.equal([1, 2]);
    expect(await signersOf(broken)).to.have.length(2);
  });

  it("that have ended leave with their keys, and what was issued stays known", async () => {
    const root = await authorities.root();
    const [ended] = await signersOf(root);
    const number = new X509Certificate(ended.certificate).serialNumber.toLowerCase();
    await age(root, 31);

    await renew();

    const signers = await signersOf(root);
    expect(signers).to.have.length(1);
    expect(signers[0].id).not.to.equal(ended.id);
    expect(await server.sql("select from data_key where record_id = $1", [ended.id])).to.deep.equal([]);
    expect(await server.sql("select from data_key where record_id = $1", [signers[0].id])).to.have.length(1);
    expect((await ask(responder(), root, number)).said).to.equal("good");
  });

  it("that end without a successor leave tryLater and a responder that is not ready, until there is one", async () => {
    const root = await authorities.root();
    // One that remembers no other end of it.
    const replica = responderOf(await server.startReplica({}, ["ocsp"]));
    const [{ not_after: end }] = await server.sql(
      "update ocsp_signer set not_after = now() + interval '4 seconds' where ca_id = $1 returning not_after",
      [root.id],
    );
    const before = await askOf(root, replica);
    await until(() => Date.now() > end.getTime());

    const ended = await askOf(root, replica);
    const remembered = await ask(replica, root, root.serial_number, { nonce: null });
    await until(async () => (await probe(replica, "ready")).status === 503);
    const health = await probe(replica, "health");
    const live = await probe(replica, "live");
    await renew();
    const after = await askOf(root, replica);
    await until(async () => (await probe(replica, "ready")).status === 200);

    expect(before.nextUpdate).to.be.a("date").and.to.be.at.most(end);
    expect([before, ended, remembered, after].map(({ said }) => said)).to.deep.equal([
      "good",
      "tryLater",
      "tryLater",
      "good",
    ]);
    expect(health.body.components).to.include({ database: "connected", signing_key: "missing" });
    expect(live.status).to.equal(200);
  });

  it("are all counted, and opened once for that, however few are kept at hand", async () => {
    await Promise.all([authorities.root(), authorities.root(), authorities.root()]);
    const { db, seal, logger } = server.server.core;
    let statements = 0;
    const counting = {
      query: <Row>(text: string, values: readonly unknown[]) => {
        statements += 1;
        return db.query<Row>(text, values);
      },
    };
    const signers = new OpenedSigners(counting, seal, logger, 1);
    const { authorities: expected, ...first } = await signers.count();
    const before = statements;

    const second = await signers.count();

    expect([first.signers, second.authorities, second.signers]).to.deep.equal([expected, expected, expected]);
    expect(expected).to.be.above(2);
    expect(statements - before).to.equal(1);
  });

  it("are not missed by authorities that have ended", async () => {
    const root = await authorities.root();
    await authorities.expire(root.id);
    await server.sql("delete from ocsp_signer where ca_id = $1", [root.id]);

    await renew();
    await sleep(1050);

    expect(await signersOf(root)).to.deep.equal([]);
    expect((await probe(responder(), "ready")).status).to.equal(200);
  });
});
