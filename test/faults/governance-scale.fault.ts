import { monitorEventLoopDelay } from "node:perf_hooks";
import { expect } from "chai";
import type { Client } from "../harness/client.ts";
import { useServer } from "../harness/server.ts";
import { evaluationOf } from "../server/governance/evaluating.ts";
import { newAuthority } from "../server/governance/issued.ts";

const many = 100_000;

describe("The evaluation of an organization of 100,000 secrets, keytabs and certificates", () => {
  const server = useServer();
  let admin: Client;
  before(async () => {
    const other = await server.otherOrganization();
    admin = other.admin;
    const ca = await newAuthority(server, other.organizationId, "root");
    const names = `select 'SERVICE_' || n || '_DB_PASSWORD' as name, n from generate_series(1, ${many}) n`;
    await server.sql(
      `with s as (
         insert into secret (organization_id, project_id, key, created_by, rotation_enabled, rotation_interval_days)
         select $1, $2, name, 'test', n % 2 = 0, case when n % 2 = 0 then n % 100 + 1 end from (${names}) n returning id)
       insert into secret_version (organization_id, secret_id, version, sealed, created_at, created_by, change_type)
       select $1, id, 1, '', now() - random() * interval '200 days', 'test', 'initial' from s`,
      [other.organizationId, other.projectId],
    );
    await server.sql(
      `insert into keytab (organization_id, project_id, name, principal, realm, kvno, encryption_types, cipher_compliance,
         source, entry_count, keytab_hash)
       select $1, $2, name, name, 'R', 1, '{}', 'compliant', 'import', 1, name from (${names}) n`,
      [other.organizationId, other.projectId],
    );
    await server.sql(
      `with c as (
         insert into certificate (organization_id, ca_id, serial_number, subject, subject_alternative_names, key_algorithm,
           key_size, profile, certificate, fingerprint_sha256, public_key_sha256, not_before, not_after, created_by)
         select $1, $2, '4' || lpad(to_hex(n), 39, '0'), jsonb_build_object('commonName', name), '{}',
           case when n % 2 = 0 then 'RSA' else 'ECDSA' end, 256 + n % 2 * 128, 'server', '', '', '', now(),
           now() + (n % 400 + 1) * interval '1 day', 'test'
         from (${names}) n returning ca_id, serial_number, organization_id, not_after)
       insert into certificate_status (ca_id, serial_number, organization_id, not_after) select * from c`,
      [other.organizationId, ca],
    );
    await server.sql("analyze");
  });

  it("takes seconds, keeps each statement within its time, and lets others have the processor", async () => {
    const delay = monitorEventLoopDelay();
    delay.enable();
    const began = performance.now();

    const { results } = await evaluationOf(admin, {
      certificate_policy: {
        min_key_size_rsa: 3072,
        min_key_size_ecdsa: 384,
        allowed_algorithms: ["Ed25519"],
        max_validity_days: 90,
        min_validity_days: 30,
        require_auto_renewal: true,
      },
      rotation_policy: { max_secret_rotation_days: 90, max_cert_rotation_days: 90, require_rotation_enabled: true },
      naming_policy: {
        required_patterns: ["^[A-Z][A-Z0-9_]*$", "^(SERVICE|APP)_", "[A-Z]$", "^.{1,64}$"],
        forbidden_patterns: Array.from({ length: 5 }, (_, n) => `(?i)tmp${n}|_${n}$`),
      },
    });

    const tookMs = performance.now() - began;
    delay.disable();
    console.log(`      ${Math.round(tookMs)} ms, ${Math.round(delay.max / 1e6)} ms at most on the processor at once`);
    expect(results.map(({ rule, checked }) => `${rule.split(".")[1]} ${checked}`)).to.deep.equal([
      "min_key_size_rsa 50000",
      "min_key_size_ecdsa 50001",
      "allowed_algorithms 100001",
      "max_validity_days 100000",
      "min_validity_days 100000",
      "require_auto_renewal 100000",
      "max_secret_rotation_days 100000",
      "max_cert_rotation_days 100000",
      "require_rotation_enabled 100000",
      "required_patterns 200000",
      "forbidden_patterns 200000",
    ]);
    expect(tookMs).to.be.lessThan(30_000);
    expect(delay.max / 1e6).to.be.lessThan(1000);
  });
});

describe("Patterns that take as long for a name as patterns can", () => {
  const server = useServer();

  it("lets other calls through meanwhile, and gives up rather than take minutes", async () => {
    const { admin, projectId, organizationId } = await server.otherOrganization();
    await server.sql(
      `insert into secret (organization_id, project_id, key, created_by)
       select $1, $2, substr(repeat(translate(md5(n::text), '0123456789cdef', 'abababababababa'), 8), 1, 255), 'test'
       from generate_series(1, 11000) n`,
      [organizationId, projectId],
    );
    const over = new AbortController();
    // Each name takes as long as names and patterns can take.
    const pattern = "(a|b)*a(a|b){250}[^ab]";
    const evaluating = evaluationOf(admin, {
      naming_policy: { forbidden_patterns: Array(10).fill(pattern) },
    }).finally(() => over.abort());

    let slowestMs = 0;
    let calls = 0;
    while (!over.signal.aborted) {
      const began = performance.now();
      await admin.rest("GET", "/api/v1/whoami");
      slowestMs = Math.max(slowestMs, performance.now() - began);
      calls += 1;
    }
    const { status, results } = await evaluating;

    expect(calls).to.be.greaterThan(10);
    // All the matching takes longer than this on any machine.
    expect(slowestMs).to.be.lessThan(3000);
    expect(status).to.equal("partially_evaluated");
    expect(results[0]?.status).to.equal("not_evaluated");
    expect(results[0]?.message).to.match(/^0 of the first \d+ names match .*, and the others would take too long$/);
  });
});
