import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { Certificates, faultsOf, newCsr, noNames, parsed } from "./certificates.ts";

const server = useServer();
const authorities = new Authorities(server);
const certificates = new Certificates(server);

describe("The names of a certificate", () => {
  let root: AuthorityRecord;

  before(async () => {
    root = await authorities.root();
  });

  describe("of a profile", () => {
    const usages = async (profile: string) =>
      parsed(await certificates.issued({ ca_id: root.id, profile })).keyUsage?.toSorted();
    const [serverAuth, clientAuth] = ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"];

    it("is for servers, for clients, or for both", async () => {
      expect(await usages("server")).to.deep.equal([serverAuth]);
      expect(await usages("client")).to.deep.equal([clientAuth]);
      expect(await usages("server_client")).to.deep.equal([serverAuth, clientAuth]);
    });

    it("adds a server's common name to its alternative names when it is a host name or an address, once", async () => {
      const cases: [object, object][] = [
        [{ subject: { common_name: "WWW.Example.com" } }, { dns: ["www.example.com"] }],
        [{ subject: { common_name: "192.0.2.7" } }, { ip: ["192.0.2.7"] }],
        [
          { subject: { common_name: "a.example" }, subject_alternative_names: { dns: ["b.example", "A.example"] } },
          { dns: ["b.example", "a.example"] },
        ],
        [{ subject: { common_name: "Web server" }, subject_alternative_names: { ip: ["::1"] } }, { ip: ["::1"] }],
        [{ subject: { common_name: "www.example.com" }, profile: "client" }, {}],
      ];
      for (const [fields, names] of cases) {
        const { subject_alternative_names: found } = await certificates.issued({ ca_id: root.id, ...fields });

        expect(found, JSON.stringify(fields)).to.deep.equal({ ...noNames, ...names });
      }
    });

    it("refuses a server without a host name or an address, and a client without any name", async () => {
      const server = { subject: { common_name: "Web server" }, subject_alternative_names: { email: ["a@b.example"] } };
      const cases: [object, string][] = [
        [server, "subject_alternative_names"],
        [{ ...server, profile: "server_client" }, "subject_alternative_names"],
        [{ subject: {}, profile: "client" }, "subject"],
      ];
      for (const [fields, field] of cases) {
        const answer = await certificates.post({ ca_id: root.id, ...fields });

        expect(answer.status, field).to.equal(400);
        expect(faultsOf(answer)).to.have.keys(field);
      }
      const { profile } = await certificates.issued({ ca_id: root.id, ...server, profile: "client" });
      expect(profile).to.equal("client");
    });
  });

  it("does not take one word for a host name, but says so, and takes it as an alternative name", async () => {
    const subject = { common_name: "localhost" };

    const refused = await certificates.post({ ca_id: root.id, subject });
    const issued = await certificates.issued({
      ca_id: root.id,
      subject,
      subject_alternative_names: { dns: ["localhost"] },
    });

    expect(refused.status).to.equal(400);
    expect(faultsOf(refused)["subject_alternative_names"]).to.match(
      /a common_name without a dot is not taken for one$/,
    );
    expect(issued.subject_alternative_names.dns).to.deep.equal(["localhost"]);
  });

  it("refuses more names than fit into 32 KiB, wherever they come from", async () => {
    const uri = Array.from({ length: 17 }, (_, index) => `https://a${index}.example/${"x".repeat(1950)}`);
    const { csr } = await newCsr(
      "CN=www.example.com",
      uri.map((name) => ["url", name]),
    );

    const given = await certificates.post({ ca_id: root.id, subject_alternative_names: { uri } });
    const asked = await certificates.post({ ca_id: root.id, csr_pem: csr });
    const fitting = await certificates.post({ ca_id: root.id, subject_alternative_names: { uri: uri.slice(1) } });

    expect([given.status, asked.status, fitting.status]).to.deep.equal([400, 400, 201]);
    expect(faultsOf(given)["subject_alternative_names"]).to.match(/at most 32768 octets/);
    expect(faultsOf(asked)["csr_pem"]).to.match(/^subject_alternative_names must take at most 32768 octets/);
  });

  it("refuses names that are none, each by its path, and tells all of them", async () => {
    const answer = await certificates.post({
      ca_id: root.id,
      subject: { common_name: " blank.example.com", country: "12" },
      subject_alternative_names: { dns: ["fine.example.com", "-x.example.com"], ip: ["1.2.3"], uri: ["no uri"] },
    });
    const canonical = await certificates.post({
      ca_id: root.id,
      subject: { common_name: " blank.example.com" },
      subject_alternative_names: { dns: ["fine.example.com", "-x.example.com"], ip: ["1.2.3"], uri: ["no uri"] },
    });

    expect(answer.status).to.equal(400);
    expect(faultsOf(answer)).to.have.keys("subject.country");
    expect(canonical.status).to.equal(400);
    expect(faultsOf(canonical)).to.have.keys(
      "subject.common_name",
      "subject_alternative_names.dns[1]",
      "subject_alternative_names.ip[0]",
      "subject_alternative_names.uri[0]",
    );
  });

  it("refuses names outside the constraints of any authority above it, naming each", async () => {
    const top = await authorities.root({
      max_path_length: 1,
      name_constraints: { excluded: { dns: ["secret.example.com"] } },
    });
    const below = await authorities.below(top, {
      name_constraints: { permitted: { dns: ["example.com"], ip: ["10.0.0.0/8"] } },
    });
    const { csr } = await newCsr("CN=Server", [["dns", "www.example.org"]]);
    const cases: [object, string[]][] = [
      [{ subject: { common_name: "www.example.org" } }, ["subject.common_name"]],
      [{ subject: { common_name: "a.secret.example.com" } }, ["subject.common_name"]],
      [
        { subject_alternative_names: { dns: ["www.example.com", "www.example.org"], ip: ["192.0.2.1"] } },
        ["subject_alternative_names.dns[1]", "subject_alternative_names.ip[0]"],
      ],
      [{ csr_pem: csr }, ["csr_pem"]],
    ];
    for (const [fields, fields_] of cases) {
      const answer = await certificates.post({ ca_id: below.id, ...fields });

      expect(answer.status, JSON.stringify(fields)).to.equal(400);
      expect(faultsOf(answer)).to.have.keys(...fields_);
    }
    const allowed = { dns: ["a.example.com"], ip: ["10.1.2.3"] };
    expect((await certificates.post({ ca_id: below.id, subject_alternative_names: allowed })).status).to.equal(201);
  });
});
