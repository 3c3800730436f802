import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { type CertificateRecord, Certificates, certificatesPath } from "./certificates.ts";

const server = useServer();
const authorities = new Authorities(server);
const certificates = new Certificates(server);

interface Operation {
  readonly name: string;
  readonly permission: string;
  /** What a denial is recorded as. */
  readonly action: string;
  call(by: Client, certificate: CertificateRecord): ReturnType<Client["rest"]>;
}

const operations: Operation[] = [
  {
    name: "issue",
    permission: "certificate:issue",
    action: "certificate.issue",
    call: (by, { ca_id, project_id }) => certificates.post({ ca_id, project_id }, by),
  },
  {
    name: "read",
    permission: "certificate:read",
    action: "certificate.read",
    call: (by, { id }) => by.rest("GET", certificatesPath(id)),
  },
  {
    name: "download",
    permission: "certificate:read",
    action: "certificate.download",
    call: (by, { id }) => by.rest("GET", certificatesPath(id, "/download")),
  },
  {
    name: "update",
    permission: "certificate:issue",
    action: "certificate.update",
    call: (by, { id }) => certificates.put(id, { auto_renew: true }, by),
  },
  {
    name: "renew",
    permission: "certificate:issue",
    action: "certificate.renew",
    call: (by, { id }) => certificates.renew(id, {}, by),
  },
  {
    name: "revoke",
    permission: "certificate:revoke",
    action: "certificate.revoke",
    call: (by, { id }) => certificates.revoke(id, {}, by),
  },
];

const holds: Record<string, string[]> = {
  viewer: ["certificate:read"],
  auditor: ["certificate:read"],
  editor: ["certificate:read", "certificate:issue"],
  admin: ["certificate:read", "certificate:issue", "certificate:revoke"],
  "gateway:admin": [],
};

describe("Operations on certificates", () => {
  let root: AuthorityRecord;
  let otherProjectId = "";
  const certificateIn = (project_id: string | null) => certificates.issued({ ca_id: root.id, project_id });

  before(async () => {
    root = await authorities.root();
    otherProjectId = (await server.admin.rest("POST", "/api/v1/projects", { name: "another" })).body.id;
  });

  for (const [role, permissions] of Object.entries(holds)) {
    it(`are open to ${role} at the organization exactly as far as its permissions go`, async () => {
      const client = await server.as(`${role}-everywhere`, [role]);
      for (const operation of operations) {
        for (const project of [null, server.projectId]) {
          const { status, body } = await operation.call(client, await certificateIn(project));

          const why = `${operation.name} ${JSON.stringify(body)}`;
          if (permissions.includes(operation.permission)) expect(status, why).to.be.within(200, 201);
          else {
            expect(status, why).to.equal(403);
            expect(body.error.message).to.include(operation.permission);
          }
        }
      }
    });
  }

  for (const role of ["viewer", "editor", "admin"]) {
    it(`are open to ${role} at one project there, and neither elsewhere nor where there is no project`, async () => {
      const client = await server.as(`${role}-here`, { projectRoles: [{ project_id: server.projectId, role }] });
      for (const operation of operations) {
        const here = await operation.call(client, await certificateIn(server.projectId));
        const there = await operation.call(client, await certificateIn(otherProjectId));
        const nowhere = await operation.call(client, await certificateIn(null));

        const allowed = holds[role]?.includes(operation.permission) === true;
        if (allowed) expect(here.status, `${operation.name} here`).to.be.within(200, 201);
        else expect(here.status, `${operation.name} here`).to.equal(403);
        expect([there.status, nowhere.status], operation.name).to.deep.equal([403, 403]);
      }
    });
  }

  it("are refused and leave everything as it was to one without the permission, on the record", async () => {
    const nobody = await server.as("nobody", []);
    for (const operation of operations) {
      const certificate = await certificateIn(server.projectId);
      const stored = () =>
        server.sql(
          "select * from certificate c join certificate_status s on s.ca_id = c.ca_id and s.serial_number = c.serial_number order by id",
        );
      const before = await stored();

      const { status, body } = await operation.call(nobody, certificate);

      expect(status, operation.name).to.equal(403);
      expect(await stored()).to.deep.equal(before);
      const [event] = await server.sql("select * from audit_event where request_id = $1", [body.error.request_id]);
      expect(event, operation.name).to.include({
        outcome: "denied",
        reason: "PERMISSION_DENIED",
        actor_name: "nobody",
        action: operation.action,
      });
    }
  });

  it("name the certificate and its project in the record of a denial, where the caller may in another one", async () => {
    const client = await server.as("elsewhere", { projectRoles: [{ project_id: otherProjectId, role: "admin" }] });
    const { id } = await certificateIn(server.projectId);

    const { body } = await certificates.revoke(id, {}, client);

    const [event] = await server.sql("select * from audit_event where request_id = $1", [body.error.request_id]);
    expect(event).to.include({ outcome: "denied", resource_id: id, project_id: server.projectId });
  });

  it("are refused to anybody without a token", async () => {
    const certificate = await certificateIn(null);
    for (const operation of operations) {
      const { status, body } = await operation.call(server.anonymous, certificate);

      expect(status, operation.name).to.equal(401);
      expect(body.error.code).to.equal("AUTH_REQUIRED");
    }
  });

  it("tell another organization nothing, not even that there is such a certificate, and change nothing", async () => {
    const other = await server.otherOrganization();
    const { private_key_pem: _, ...certificate } = await certificateIn(server.projectId);
    for (const operation of operations) {
      const { status, body } = await operation.call(other.admin, certificate);

      expect(status, operation.name).to.equal(404);
      expect(body.error.code).to.equal("RESOURCE_NOT_FOUND");
      expect(JSON.stringify(body)).not.to.include("www.example.com");
    }
    expect((await certificates.list("", other.admin)).data).to.deep.equal([]);
    expect(await certificates.get(certificate.id)).to.deep.equal(certificate);
  });

  it("are 404 for what is no id, and for one that is nobody's", async () => {
    for (const id of ["certificate", "00000000-0000-7000-8000-000000000000"]) {
      for (const operation of operations.filter(({ name }) => name !== "issue")) {
        const { status } = await operation.call(server.admin, { id });

        expect(status, `${operation.name} ${id}`).to.equal(404);
      }
    }
  });
});
