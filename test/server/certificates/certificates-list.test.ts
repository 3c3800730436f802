import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import { plansOf, type Step, statementsDuring, stepsOf } from "../auth/query-plans.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { type CertificateRecord, Certificates, certificatesPath } from "./certificates.ts";

const server = useServer({ LOG_LEVEL: "info" });
const authorities = new Authorities(server);
const certificates = new Certificates(server);

const nobody = "00000000-0000-7000-8000-000000000000";
const serialNumbersOf = (data: CertificateRecord[]) => data.map(({ serial_number }) => serial_number);

describe("ListCertificates", () => {
  let root: AuthorityRecord;
  let gone: AuthorityRecord;
  let otherProjectId = "";
  const made: Record<string, CertificateRecord> = {};
  const namesOf = async (query = "", by?: Client): Promise<string[]> =>
    (await certificates.list(query, by)).data.map(({ id }: CertificateRecord) =>
      Object.keys(made).find((name) => made[name]?.id === id),
    );

  before(async () => {
    expect(await certificates.list()).to.deep.equal({ data: [], pagination: { page: 1, per_page: 25, total: 0 } });
    [root, gone] = [await authorities.root(), await authorities.root()];
    otherProjectId = (await server.admin.rest("POST", "/api/v1/projects", { name: "another" })).body.id;
    const issue = async (name: string, common_name: string, fields: object = {}) => {
      made[name] = await certificates.issued({ ca_id: root.id, subject: { common_name }, ...fields });
    };
    await issue("first", "a.example.com", { project_id: server.projectId });
    await issue("second", "Person 100%", {
      project_id: otherProjectId,
      profile: "client",
      subject_alternative_names: { dns: ["hidden.example.org", "other.example.org"] },
    });
    await issue("short", "short.example.com", { validity_days: 5 });
    await issue("over", "over.example.com");
    await certificates.age(made["over"]?.id, 91);
    await issue("revoked", "revoked.example.com", { project_id: server.projectId });
    await certificates.revoke(made["revoked"]?.id);
    await issue("orphan", "orphan.example.com", { ca_id: gone.id });
    await authorities.revoke(gone.id, { reason: "cessation_of_operation" });
    const other = await server.otherOrganization();
    const theirs = await authorities.root({}, other.admin);
    await certificates.issued({ ca_id: theirs.id, subject: { common_name: "theirs.example.com" } }, other.admin);
  });

  it("lists all of the organization, newest first, each as it is read alone", async () => {
    const { data, pagination } = await certificates.list();

    // Which was issued earlier than all others, as far as the database knows.
    expect(await namesOf()).to.deep.equal(["orphan", "revoked", "short", "second", "first", "over"]);
    expect(pagination).to.deep.equal({ page: 1, per_page: 25, total: 6 });
    for (const record of data) expect(await certificates.get(record.id)).to.deep.equal(record);
    expect(JSON.stringify(data)).not.to.include("PRIVATE KEY");
  });

  it("shows as revoked what its authority issued, with the authority's time and reason", async () => {
    const { revoked_at } = await authorities.get(gone.id);

    expect(await certificates.get(made["orphan"]?.id)).to.include({
      status: "revoked",
      revoked_at,
      revocation_reason: "cessation_of_operation",
    });
  });

  it("filters by each of its parameters, and by all at once", async () => {
    const { serial_number = "" } = made["first"] ?? {};
    const colons = serial_number.toUpperCase().replaceAll(/(..)(?=.)/g, "$1:");
    const soon = new Date(Date.now() + 6 * 86_400_000).toISOString();
    const cases: Record<string, string[]> = {
      "status=active": ["short", "second", "first"],
      "status=expired": ["over"],
      "status=revoked": ["orphan", "revoked"],
      [`ca_id=${root.id}`]: ["revoked", "short", "second", "first", "over"],
      [`ca_id=${gone.id}`]: ["orphan"],
      [`project_id=${server.projectId}`]: ["revoked", "first"],
      [`serial_number=${serial_number}`]: ["first"],
      [`serial_number=${colons}`]: ["first"],
      [`serial_number=${serial_number.slice(2)}`]: [],
      [`expires_before=${soon}`]: ["short", "over"],
      "search=EXAMPLE.com": ["orphan", "revoked", "short", "first", "over"],
      "search=hidden": ["second"],
      "search=100%25": ["second"],
      "search=0%25%25": [],
      "search=org%22": [],
      "search=_": [],
      "search=theirs": [],
      [`status=active&ca_id=${root.id}&project_id=${server.projectId}&serial_number=${serial_number}&search=a.&expires_before=9000-01-01T00:00:00Z`]:
        ["first"],
      [`status=revoked&project_id=${otherProjectId}`]: [],
    };
    for (const [query, names] of Object.entries(cases)) {
      const { pagination } = await certificates.list(query);

      expect(await namesOf(query), query).to.deep.equal(names);
      expect(pagination.total, query).to.equal(names.length);
    }
  });

  it("shows by pages, and says how many there are also past the last one", async () => {
    const page = async (query: string) => (await certificates.list(query)).pagination;

    expect(await namesOf("page=2&per_page=2")).to.deep.equal(["short", "second"]);
    expect(await page("page=2&per_page=2")).to.deep.equal({ page: 2, per_page: 2, total: 6 });
    expect(await namesOf("page=9&limit=2")).to.deep.equal([]);
    expect(await page("page=9&limit=2")).to.deep.equal({ page: 9, per_page: 2, total: 6 });
    const { headers } = await server.admin.rest("GET", certificatesPath(undefined, "?per_page=5"));
    expect(["x-total-count", "x-page", "x-per-page"].map((name) => headers.get(name))).to.deep.equal(["6", "1", "5"]);
  });

  it("shows one who may read a project's the certificates of that project, and not those of none", async () => {
    const client = await server.as("reader", { projectRoles: [{ project_id: server.projectId, role: "viewer" }] });

    expect(await namesOf("", client)).to.deep.equal(["revoked", "first"]);
    expect(await namesOf(`project_id=${server.projectId}&status=active`, client)).to.deep.equal(["first"]);
    const { status } = await client.rest("GET", certificatesPath(undefined, `?project_id=${otherProjectId}`));
    expect(status).to.equal(403);
  });

  it("refuses what is no filter of its kind, naming the parameter", async () => {
    const cases: Record<string, string> = {
      "status=disabled": "status",
      "ca_id=root": "ca_id",
      "project_id=default": "project_id",
      "serial_number=xyz": "serial_number",
      "serial_number=abc": "serial_number",
      "expires_before=tomorrow": "expires_before",
      "page=0": "page",
      "per_page=101": "per_page",
      "search=%00": "search",
    };
    for (const [query, field] of Object.entries(cases)) {
      const { status, body } = await server.admin.rest("GET", certificatesPath(undefined, `?${query}`));

      expect(status, query).to.equal(400);
      expect(body.error.details[0].field, query).to.equal(field);
    }
  });

  it("is 404 for an authority or a project that is not there for the caller", async () => {
    const other = await server.otherOrganization();
    const theirs = await authorities.root({}, other.admin);
    const cases: [string, string][] = [
      ["ca_id", nobody],
      ["ca_id", theirs.id],
      ["project_id", nobody],
      ["project_id", other.projectId],
    ];
    for (const [field, id] of cases) {
      const { status, body } = await server.admin.rest("GET", certificatesPath(undefined, `?${field}=${id}`));

      expect(status, field).to.equal(404);
      expect(body.error.details[0].field).to.equal(field);
    }
  });

  describe("among 20,000", () => {
    const count = 20_000;
    /** Of ten authorities, one serial number each. */
    const serialNumber = (n: number) => n.toString(16).padStart(40, "4");

    before(async function () {
      this.timeout(120_000);
      const ids = [];
      for (let n = 0; n < 10; n += 1) ids.push((await authorities.root()).id);
      await server.sql(
        `with made as (
           insert into certificate (organization_id, ca_id, serial_number, subject, subject_alternative_names,
             key_algorithm, key_size, profile, certificate, fingerprint_sha256, public_key_sha256, not_before, not_after,
             created_by, created_at)
           select (select organization_id from certificate_authority where id = $1[1]), ($1)[n % 10 + 1],
             lpad(to_hex(n), 40, '4'), jsonb_build_object('commonName', 'host-' || n || '.example.net'),
             jsonb_build_object('dns', jsonb_build_array('host-' || n || '.example.net', 'alias-' || n || '.example.net'),
               'ip', '[]'::jsonb, 'email', '[]'::jsonb, 'uri', '[]'::jsonb),
             'ECDSA', 256, 'server', '\\x30', 'f', sha256(n::text::bytea), now() - interval '1 day',
             now() + make_interval(days => n % 90 - 5), 'test', now() - make_interval(secs => n)
           from generate_series(1, ${count}) n
           returning ca_id, serial_number, organization_id, not_after)
         insert into certificate_status (ca_id, serial_number, organization_id, not_after, revoked_at, revocation_reason)
         select ca_id, serial_number, organization_id, not_after,
           case when serial_number like '%ff' then now() end, case when serial_number like '%ff' then 'superseded' end
         from made`.replace("$1[1]", "($1::uuid[])[1]"),
        [ids],
      );
      await server.sql("analyze");
    });

    /** How PostgreSQL reads tables for a list. */
    async function readsOf(query: string): Promise<Step[]> {
      const statements = await statementsDuring(server, () => certificates.list(query));
      const ofList = statements.filter(({ text }) => text.includes("from certificate c"));
      expect(ofList, "one statement").to.have.length(1);
      const plans = await plansOf(server.databaseUrl, ofList);
      return plans.flatMap(({ root: step }) => stepsOf(step));
    }

    it("looks a serial number up by an index, whatever its authority", async () => {
      const query = `serial_number=${serialNumber(4711)}`;

      const reads = await readsOf(query);

      expect(serialNumbersOf((await certificates.list(query)).data)).to.deep.equal([serialNumber(4711)]);
      const ways = reads.filter((read) => read["Relation Name"] === "certificate").map((read) => read["Node Type"]);
      expect(ways).not.to.include("Seq Scan");
    });

    it("looks up what stands about the certificates of a page only", async () => {
      const reads = await readsOf("per_page=20");

      for (const read of reads) expect(read["Actual Loops"]).to.be.at.most(20);
    });

    it("another one is issued without reading any table as a whole, but for the few authorities", async () => {
      const statements = await statementsDuring(server, () => certificates.issued({ ca_id: root.id }));
      const [insert, ...more] = statements.filter(({ text }) => text.includes("insert into certificate"));
      expect(more).to.deep.equal([]);
      if (insert === undefined) throw new Error("nothing was inserted");
      await server.sql("delete from certificate where serial_number = $1", [insert.values[4]]);
      await server.sql("delete from certificate_status where serial_number = $1", [insert.values[4]]);

      const plans = await plansOf(server.databaseUrl, [insert]);

      const whole = plans.flatMap(({ root: step }) => stepsOf(step)).filter((step) => step["Node Type"] === "Seq Scan");
      for (const step of whole) expect(step["Relation Name"]).to.be.oneOf(["certificate_authority", "project"]);
    });

    it("answers every filter long before a statement is cut off", async function () {
      this.timeout(60_000);
      for (const query of ["", "status=active", "status=revoked", "status=expired", "search=alias-19999", "page=801"]) {
        const begun = performance.now();
        const { pagination } = await certificates.list(query);

        expect(performance.now() - begun, query).to.be.below(2000);
        expect(pagination.total, query).to.be.above(0);
      }
    });
  });
});
