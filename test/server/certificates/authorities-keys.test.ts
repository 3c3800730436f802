import { createPublicKey, type KeyObject, randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { CertificateAuthorityService } from "../../../gen/ts/holdfast/certificates/v1/certificate_authority_service_pb.ts";
import { rewrapIn } from "../../../src/server/admin/rewrap.ts";
import { openAuthority } from "../../../src/server/certificates/authority-key.ts";
import { readConfig } from "../../../src/server/config.ts";
import { readMasterKey } from "../../../src/server/seal/master-key.ts";
import type { Answer } from "../../harness/client.ts";
import { disguises, dump } from "../../harness/leaks.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord, authoritiesPath, intermediateOf } from "./authorities.ts";

const server = useServer({ LOG_LEVEL: "trace" });
const authorities = new Authorities(server);

const open = ({ organization_id, id }: AuthorityRecord, { core } = server.server) =>
  openAuthority(core.db, core.seal, organization_id, id);

const spki = (key: KeyObject) => createPublicKey(key).export({ type: "spki", format: "pem" });

describe("openAuthority", () => {
  it("opens the key that belongs to the certificate, and says what bounds whatever it signs", async () => {
    const root = await authorities.root({ name_constraints: { excluded: { dns: ["bad.example.com"] } } });
    const middle = await authorities.below(root, { max_path_length: 1 });
    const last = await authorities.below(middle, { name_constraints: { permitted: { dns: ["example.com"] } } });
    await authorities.put(last.id, { status: "disabled" });

    const opened = await open(last);

    const { issuer, nameConstraints, notBefore, notAfter, ...rest } = opened ?? expect.fail("there is no authority");
    expect(spki(issuer.privateKey)).to.equal(
      createPublicKey(last.certificate_pem).export({ type: "spki", format: "pem" }),
    );
    expect(nameConstraints).to.have.deep.members([root.name_constraints, last.name_constraints]);
    expect([notBefore.toISOString(), notAfter.toISOString()]).to.deep.equal([last.not_before, last.not_after]);
    expect(rest).to.deep.equal({
      id: last.id,
      organizationId: last.organization_id,
      name: last.name,
      status: "disabled",
      maxPathLength: 0,
      chainPem: last.chain_pem,
    });
  });

  it("finds nothing in another organization", async () => {
    const root = await authorities.root();
    const { organizationId } = await server.otherOrganization();

    expect(await open({ ...root, organization_id: organizationId })).to.equal(undefined);
    expect(await open({ ...root, id: randomUUID() })).to.equal(undefined);
  });

  it("opens no key that was put in another's place, or whose data key is gone", async () => {
    const [one, other] = [await authorities.root(), await authorities.root()] as const;
    const before = await server.sql("select sealed_key from certificate_authority where id = $1", [one.id]);

    await server.sql("update certificate_authority set sealed_key = $2 where id = $1", [
      other.id,
      before[0].sealed_key,
    ]);
    await server.sql("delete from data_key where record_id = $1", [one.id]);

    for (const authority of [one, other]) {
      const error = await open(authority).then(
        () => expect.fail("it opened"),
        (reason: unknown) => reason,
      );
      expect(error).to.be.instanceOf(Error);
      const answer = await authorities.post(intermediateOf(authority));
      expect([answer.status, answer.body.error.message]).to.deep.equal([500, "an unexpected error occurred"]);
    }
  });

  it("opens them after a rewrap to another master key", async () => {
    const root = await authorities.root();
    const old = server.environment()["SERVICE_MASTER_KEY"] ?? "";
    const next = { MASTER_KEY: randomBytes(32).toString("base64") };
    const both = { ...server.environment(), SERVICE_MASTER_KEY: next.MASTER_KEY, SERVICE_MASTER_KEY_PREVIOUS: old };

    const { unopened } = await rewrapIn(
      { database: server.server.core.db, masterKey: readMasterKey(readConfig(both), false) },
      { progress: () => {}, signal: new AbortController().signal },
    );
    const replica = await server.startReplica(next);
    const admin = await server.login(server.clientId, server.clientSecret, urlOf(replica));
    const below = await authorities.below(root, {}, admin);

    expect(unopened).to.equal(0);
    expect(below.chain_pem).to.equal(root.certificate_pem);
    expect((await open(root, replica))?.issuer.privateKey.type).to.equal("private");
  });
});

describe("An authority whose making fails halfway", () => {
  const tables = ["certificate_authority", "certificate_status", "issuer_hash", "ocsp_signer", "crl", "data_key"];
  const counts = async () => {
    const each = tables.map((table) => `(select count(*)::int from ${table}) as ${table}`);
    return (await server.sql(`select ${each.join(", ")}`))[0];
  };

  for (const table of ["ocsp_signer", "crl"]) {
    it(`leaves nothing behind when ${table} cannot be written, and can be made afterwards`, async () => {
      await server.sql(
        `create or replace function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`,
      );
      await server.sql(`create trigger refuse before insert on ${table} execute function refuse()`);
      const name = `authority-${randomUUID()}`;
      const before = await counts();

      const failed = await authorities.post({ name });
      await server.sql(`drop trigger refuse on ${table}`);

      expect([failed.status, failed.body.error.code]).to.deep.equal([500, "INTERNAL_ERROR"]);
      expect(await counts()).to.deep.equal(before);
      expect((await authorities.root({ name })).name).to.equal(name);
    });
  }
});

describe("The keys of authorities", () => {
  const keys: Record<string, Buffer> = {};
  const answers: string[] = [];

  before(async function () {
    this.timeout(60_000);
    const { admin } = server;
    const call = async (...request: Parameters<typeof admin.rest>): Promise<Answer> => {
      const answer = await admin.rest(...request);
      answers.push(JSON.stringify([...answer.headers]), JSON.stringify(answer.body));
      return answer;
    };
    const make = async (name: string, fields: Record<string, unknown>, headers = {}) => {
      const request = { name, type: "root", subject: { common_name: name }, ...fields };
      const { body } = await call("POST", authoritiesPath(), request, headers);
      const { privateKey } = (await open(body))?.issuer ?? expect.fail(`there is no ${name}`);
      const { d = "" } = privateKey.export({ format: "jwk" });
      keys[name] = Buffer.from(d, "base64url");
      return body;
    };
    const root = await make("curve", {}, { "idempotency-key": "once" });
    await call("POST", authoritiesPath(), { name: "curve", type: "root", subject: { common_name: "curve" } });
    await make("edwards", { key_algorithm: "Ed25519" });
    await make("modulus", { key_algorithm: "RSA", key_size: 2048 });
    await make("below", intermediateOf(root));
    await call("GET", authoritiesPath(root.id));
    await call("GET", authoritiesPath());
    await call("PUT", authoritiesPath(root.id), { status: "disabled" });
    await call("POST", authoritiesPath(), { ...intermediateOf(root), name: "refused" });
    await call("POST", `${authoritiesPath(root.id)}/revoke`, { reason: "key_compromise" });
    const grpc = admin.grpc(CertificateAuthorityService);
    const overGrpc = await grpc.getCertificateAuthority({ id: root.id }, admin.metadata());
    answers.push(JSON.stringify(overGrpc, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)));
    grpc.close();
    await call("GET", "/api/v1/audit-logs?action=ca.*&per_page=100");
  });

  function expectNone(text: string): void {
    expect(Object.keys(keys)).to.have.length(4);
    for (const [name, key] of Object.entries(keys)) {
      for (const disguise of disguises(key)) expect(text.includes(disguise), name).to.equal(false);
    }
    expect(text).not.to.include("PRIVATE KEY");
  }

  it("are in no answer, and in no audit event", () => {
    expect(answers.join("\n")).to.include("ca.revoke").and.to.include("BEGIN CERTIFICATE");
    expectNone(answers.join("\n"));
  });

  it("are in no log, at its most talkative", () => {
    expect(server.log).to.include("CreateCertificateAuthority");
    expectNone(server.log);
  });

  it("are in no column of any table", async function () {
    this.timeout(60_000);
    const everything = await dump(server);

    expect(everything).to.include("curve");
    expectNone(everything);
  });
});
