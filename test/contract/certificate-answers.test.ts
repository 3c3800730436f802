import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Answer } from "../harness/client.ts";
import { useServer } from "../harness/server.ts";
import {
  Authorities,
  type AuthorityRecord,
  authoritiesPath,
  intermediateOf,
} from "../server/certificates/authorities.ts";
import { Certificates, certificatesPath, newCsr } from "../server/certificates/certificates.ts";
import { Crls } from "../server/certificates/crls.ts";
import { differences } from "./openapi-document.ts";

describe("a real answer about certificates and governance", () => {
  const server = useServer({ RATE_LIMIT_API: "1000" });
  const authorities = new Authorities(server);
  const certificates = new Certificates(server);
  const crls = new Crls(server);

  let ca: AuthorityRecord;
  before(async () => {
    ca = await authorities.root();
    await crls.rebuild(ca.id);
  });

  const ask = (verb: string, path: string, body?: unknown) => server.admin.rest(verb, path, body);
  type Ask = () => Promise<Answer>;
  const least = () => ({ ca_id: ca.id });
  const full = () => ({
    ...least(),
    project_id: server.projectId,
    name: "front door",
    subject: { common_name: "www.example.com", organization: "Example", country: "DE" },
    dns_names: ["www.example.com"],
    ip_addresses: ["192.0.2.1"],
    email_addresses: ["www@example.com"],
    uris: ["spiffe://example.com/www"],
    auto_renew: true,
    profile: "server_client",
    validity_days: 30,
    key_algorithm: "ECDSA",
    key_size: 384,
    tags: ["front"],
  });
  const withCertificate =
    (verb: string, rest = "", fields?: object): Ask =>
    async () =>
      ask(verb, certificatesPath((await certificates.issued(full())).id, rest), fields);
  const withAuthority =
    (verb: string, rest = "", fields?: object): Ask =>
    async () =>
      ask(verb, authoritiesPath((await authorities.root()).id, rest), fields);
  const reports = "/api/v1/governance/reports";
  const report = {
    encryption_policy: { min_tls_version: "1.2" },
    rotation_policy: { require_rotation_enabled: true },
  };
  const withReport =
    (verb: string, rest = ""): Ask =>
    async () =>
      ask(verb, `${reports}/${(await ask("POST", reports, report)).body.id}${rest}`);

  const answers: readonly (readonly [id: string, what: string, status: number, given: Ask])[] = [
    ["CreateCertificateAuthority", "with the least", 201, () => authorities.post()],
    [
      "CreateCertificateAuthority",
      "with everything",
      201,
      () =>
        authorities.post({
          ...intermediateOf(ca),
          description: "d",
          max_path_length: 0,
          permitted_dns_domains: ["example.com"],
          excluded_dns_domains: ["old.example.com"],
          default_validity_days: 30,
        }),
    ],
    ["CreateCertificateAuthority", "without a parent", 400, () => authorities.post({ type: "intermediate" })],
    ["ListCertificateAuthorities", "", 200, () => ask("GET", authoritiesPath())],
    ["GetCertificateAuthority", "", 200, withAuthority("GET")],
    ["GetCertificateAuthority", "that is not there", 404, () => ask("GET", authoritiesPath(randomUUID()))],
    ["UpdateCertificateAuthority", "", 200, withAuthority("PUT", "", { description: "d" })],
    ["RevokeCertificateAuthority", "", 200, withAuthority("POST", "/revoke", { reason: "superseded" })],
    ["DownloadCrl", "in DER", 200, () => ask("GET", authoritiesPath(ca.id, "/crl"))],
    ["DownloadCrl", "in PEM", 200, () => ask("GET", authoritiesPath(ca.id, "/crl?format=pem"))],
    ["DownloadCrl", "that was not built yet", 503, withAuthority("GET", "/crl")],
    ["IssueCertificate", "with the least", 201, () => certificates.post(least())],
    ["IssueCertificate", "with everything", 201, () => certificates.post(full())],
    [
      "IssueCertificate",
      "from a request",
      201,
      async () => certificates.post({ ...least(), csr_pem: (await newCsr()).csr }),
    ],
    ["IssueCertificate", "from a request that is none", 400, () => certificates.post({ ...least(), csr_pem: "none" })],
    ["ListCertificates", "", 200, () => ask("GET", certificatesPath())],
    ["GetCertificate", "", 200, withCertificate("GET")],
    ["GetCertificate", "that is not there", 404, () => ask("GET", certificatesPath(randomUUID()))],
    ["UpdateCertificate", "", 200, withCertificate("PUT", "", { auto_renew: false })],
    ["RenewCertificate", "", 201, withCertificate("POST", "/renew", {})],
    ["RevokeCertificate", "", 200, withCertificate("POST", "/revoke", { reason: "key_compromise" })],
    ["DownloadCertificate", "in PEM", 200, withCertificate("GET", "/download")],
    ["DownloadCertificate", "in DER", 200, withCertificate("GET", "/download?format=der")],
    ["ImportGovernanceReport", "", 201, () => ask("POST", reports, report)],
    ["ImportGovernanceReport", "with what there is not", 400, () => ask("POST", reports, { surprise: 1 })],
    ["ListGovernanceReports", "", 200, () => ask("GET", reports)],
    ["GetGovernanceReport", "", 200, withReport("GET")],
    ["GetGovernanceReport", "that is not there", 404, () => ask("GET", `${reports}/${randomUUID()}`)],
    ["GetCurrentGovernanceReport", "", 200, () => ask("GET", `${reports}/current`)],
    ["EvaluateGovernanceReport", "", 200, withReport("POST", "/evaluate")],
    ["DeleteGovernanceReport", "", 204, withReport("DELETE")],
  ];

  for (const [id, what, status, given] of answers) {
    it(`of ${id}${what === "" ? "" : ` ${what}`} is what the document says`, async () => {
      const answer = await given();

      expect(answer.status, JSON.stringify(answer.body)).to.equal(status);
      expect(differences(id, answer)).to.deep.equal([]);
    });
  }
});
