import { createHash } from "node:crypto";
import { expect } from "chai";
import { CertificateAuthorityService } from "../../../gen/ts/holdfast/certificates/v1/certificate_authority_service_pb.ts";
import { isMissing } from "../../harness/installed.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, authoritiesPath } from "./authorities.ts";
import { Crls } from "./crls.ts";

const server = useServer();
const authorities = new Authorities(server);
const crls = new Crls(server);

describe("DownloadCrl", () => {
  for (const [algorithm, size] of [
    ["ECDSA", 384],
    ["RSA", 2048],
    ["Ed25519", undefined],
  ] as const) {
    it(`answers the list of an ${algorithm} authority, which openssl verifies`, async function () {
      if (isMissing("openssl")) this.skip();
      const authority = await authorities.root({ key_algorithm: algorithm, ...(size && { key_size: size }) });
      const child = await authorities.below(authority);
      await authorities.revoke(child.id, { reason: "superseded" });
      await crls.rebuild(authority.id);

      const { verified, text } = crls.openssl((await crls.download(authority.id)).bytes, authority);

      expect(verified).to.equal(true);
      expect(text).to.include(`Serial Number: ${child.serial_number.toUpperCase()}`).and.include("Superseded");
    });
  }

  it("answers DER as a file to save, with its hash and length; HEAD the same without it", async () => {
    const { id } = await authorities.root();
    await crls.rebuild(id);
    const { sha256, size } = await crls.row(id);

    const { status, headers, bytes } = await crls.download(id);
    const head = await crls.download(id, { method: "HEAD" });

    expect(status).to.equal(200);
    expect(createHash("sha256").update(bytes).digest("hex")).to.equal(sha256);
    for (const each of [headers, head.headers]) {
      expect(each.get("content-type")).to.equal("application/pkix-crl");
      expect(each.get("content-disposition")).to.equal(`attachment; filename="${id}.crl"`);
      expect(each.get("content-length")).to.equal(String(size));
      expect(each.get("etag")).to.equal(`"${sha256}"`);
    }
    expect(head.bytes).to.have.length(0);
    expect((await crls.download(id, { query: "?format=der" })).bytes.equals(bytes)).to.equal(true);
  });

  it("answers the same in PEM", async () => {
    const { id } = await authorities.root();
    await crls.addRevoked(id, 5000);
    await crls.rebuild(id);

    const { headers, bytes } = await crls.download(id, { query: "?format=pem" });

    expect(headers.get("content-type")).to.equal("application/x-pem-file");
    expect(headers.get("content-disposition")).to.equal(`attachment; filename="${id}.crl.pem"`);
    const [begin, ...lines] = bytes.toString().split("\n");
    expect([begin, ...lines.slice(-2)]).to.deep.equal(["-----BEGIN X509 CRL-----", "-----END X509 CRL-----", ""]);
    const der = Buffer.from(lines.slice(0, -2).join(""), "base64");
    expect(der.equals((await crls.download(id)).bytes)).to.equal(true);
    expect(lines.slice(0, -3).every((line) => line.length === 64)).to.equal(true);
  });

  it("answers it in pieces over gRPC", async () => {
    const { id } = await authorities.root();
    await crls.addRevoked(id, 9000);
    await crls.rebuild(id);
    const client = server.admin.grpc(CertificateAuthorityService);

    const pieces: Buffer[] = [];
    const types = new Set<string>();
    for await (const { data, contentType } of client.downloadCrl({ id }, server.admin.metadata())) {
      pieces.push(Buffer.from(data));
      types.add(contentType);
    }
    client.close();

    expect([...types]).to.deep.equal(["application/pkix-crl"]);
    expect(pieces.length).to.be.above(5);
    expect(Buffer.concat(pieces).equals((await crls.download(id)).bytes)).to.equal(true);
  });

  it("says that there is none yet, and when to ask again", async () => {
    const { id } = await authorities.root();

    const { status, headers, bytes } = await crls.download(id);

    expect(status).to.equal(503);
    expect(headers.get("retry-after")).to.equal("2");
    expect(headers.get("content-disposition")).to.equal(null);
    expect(JSON.parse(bytes.toString()).error).to.include({
      code: "SERVICE_UNAVAILABLE",
      message: "the certificate authority has no revocation list yet",
    });
  });

  it("is for those who may read certificates, in any project, of the same organization", async () => {
    const { id } = await authorities.root();
    await crls.rebuild(id);
    const viewer = await server.as("crl-viewer", {
      projectRoles: [{ project_id: server.projectId, role: "viewer" }],
    });
    const nobody = await server.as("crl-nobody", []);
    const { admin: stranger } = await server.otherOrganization();

    const statusFor = async (by = server.admin) => (await crls.download(id, { by })).status;

    expect(await statusFor(viewer)).to.equal(200);
    expect(await statusFor(nobody)).to.equal(403);
    expect(await statusFor(stranger)).to.equal(404);
    expect(await statusFor(server.anonymous)).to.equal(401);
    const odd = await server.admin.rest("GET", `${authoritiesPath(id)}/crl?format=text`);
    expect(odd.status).to.equal(400);
    expect(odd.body.error.details).to.have.nested.property("[0].field", "format");
  });
});
