import { createHash, X509Certificate } from "node:crypto";
import { expect } from "chai";
import { CertificateService } from "../../../gen/ts/holdfast/certificates/v1/certificate_service_pb.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { Certificates, certificatesPath } from "./certificates.ts";

const server = useServer();
const authorities = new Authorities(server);
const certificates = new Certificates(server);

async function download(id: string, query = "", method = "GET") {
  const headers = { authorization: `Bearer ${server.admin.token}` };
  const response = await fetch(`${server.url}${certificatesPath(id, `/download${query}`)}`, { method, headers });
  return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
}

const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

describe("DownloadCertificate", () => {
  let issuing: AuthorityRecord;

  before(async () => {
    issuing = await authorities.below(await authorities.root());
  });

  it("answers the certificate and its chain in PEM, as a file to save", async () => {
    const { id, certificate_pem, chain_pem } = await certificates.issued({ ca_id: issuing.id });
    for (const query of ["", "?format=pem"]) {
      const { status, headers, bytes } = await download(id, query);

      expect(status).to.equal(200);
      expect(bytes.toString()).to.equal(certificate_pem + chain_pem);
      expect(headers.get("content-type")).to.equal("application/pem-certificate-chain");
      expect(headers.get("content-disposition")).to.equal('attachment; filename="www.example.com.pem"');
      expect(headers.get("content-length")).to.equal(String(bytes.length));
      expect(headers.get("etag")).to.equal(`"${sha256(bytes)}"`);
      expect(headers.get("cache-control")).to.equal("no-store");
    }
  });

  it("answers the certificate alone in DER", async () => {
    const { id, certificate_pem, fingerprint_sha256 } = await certificates.issued({ ca_id: issuing.id });

    const { headers, bytes } = await download(id, "?format=der");

    expect(bytes.equals(new X509Certificate(certificate_pem).raw)).to.equal(true);
    expect(headers.get("content-type")).to.equal("application/pkix-cert");
    expect(headers.get("content-disposition")).to.equal('attachment; filename="www.example.com.cer"');
    expect(headers.get("etag")).to.equal(`"${fingerprint_sha256}"`);
  });

  it("answers HEAD with the headers alone, and gRPC with the same bytes", async () => {
    const { id } = await certificates.issued({ ca_id: issuing.id });
    const { bytes } = await download(id);

    const head = await download(id, "", "HEAD");
    const client = server.admin.grpc(CertificateService);
    const pieces: Buffer[] = [];
    for await (const { data } of client.downloadCertificate({ id }, server.admin.metadata()))
      pieces.push(Buffer.from(data));
    client.close();

    expect([head.status, head.bytes.length]).to.deep.equal([200, 0]);
    expect(head.headers.get("content-length")).to.equal(String(bytes.length));
    expect(Buffer.concat(pieces).equals(bytes)).to.equal(true);
  });

  it("names the file in letters that every system takes, after what the certificate is for", async () => {
    const cases: [object, string][] = [
      [{ subject: { common_name: 'a"b/c\\d é' }, profile: "client" }, "a_b_c_d__.pem"],
      [{ subject: {}, subject_alternative_names: { dns: ["*.example.com"] } }, "_.example.com.pem"],
      [{ subject: { organization: "Example AG" }, profile: "client" }, "Example_AG.pem"],
      [
        {
          subject: {},
          subject_alternative_names: { uri: [`https://example.com/${"x".repeat(300)}`] },
          profile: "client",
        },
        "",
      ],
    ];
    for (const [fields, name] of cases) {
      const { id } = await certificates.issued({ ca_id: issuing.id, ...fields });

      const { headers } = await download(id);

      const [, found = ""] =
        /^attachment; filename="([A-Za-z0-9._-]{1,254})"$/.exec(headers.get("content-disposition") ?? "") ?? [];
      expect(found).to.match(/\.pem$/);
      if (name !== "") expect(found).to.equal(name);
    }
  });

  it("is 400 for another format, naming it", async () => {
    const { id } = await certificates.issued({ ca_id: issuing.id });

    const { status, body } = await server.admin.rest("GET", certificatesPath(id, "/download?format=p12"));

    expect(status).to.equal(400);
    expect(body.error.details[0].field).to.equal("format");
  });
});
