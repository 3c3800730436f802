import { create, toBinary } from "@bufbuild/protobuf";
import { createValidator } from "@bufbuild/protovalidate";
import { expect } from "chai";
import { ReportKeytabsRequestSchema } from "../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import { reportParts } from "../../src/agent/report-parts.ts";
import type { FoundKeytab } from "../../src/agent/scan/keytab-file.ts";
import type { Scan } from "../../src/agent/scan/scan.ts";

const scanId = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";

const found = (filePath: string, fields: Partial<FoundKeytab> = {}): FoundKeytab => ({
  filePath,
  root: "/etc",
  hash: "0".repeat(64),
  principal: "HTTP/web.example.com@EXAMPLE.COM",
  realm: "EXAMPLE.COM",
  kvnos: [1],
  encryptionTypes: ["aes256-cts-hmac-sha1-96"],
  permissions: "0600",
  owner: "root:root",
  ...fields,
});

const several = (count: number, fields?: Partial<FoundKeytab>) =>
  Array.from({ length: count }, (_, index) => found(`/etc/${index}.keytab`, fields));

const partsOf = (scan: Partial<Scan>) =>
  reportParts(scanId, { keytabs: [], roots: ["/etc"], errors: [], folders: [], ...scan }).map((part) =>
    create(ReportKeytabsRequestSchema, part),
  );

describe("The report of a scan", () => {
  it("is one complete part when little was found, or nothing", () => {
    for (const count of [0, 1, 200]) {
      const [part, ...more] = partsOf({ keytabs: several(count) });

      expect(part)
        .to.include({ scanId, complete: true })
        .and.deep.include({ roots: ["/etc"] });
      expect(part?.keytabs.length).to.equal(count);
      expect(more).to.deep.equal([]);
    }
  });

  it("comes in parts of one scan, of which the last one alone is complete", () => {
    const parts = partsOf({ keytabs: several(450) });

    expect(parts.map(({ keytabs }) => keytabs.length)).to.deep.equal([200, 200, 50]);
    expect(parts.map(({ complete }) => complete)).to.deep.equal([false, false, true]);
    expect(parts.map(({ roots }) => roots)).to.deep.equal([[], [], ["/etc"]]);
    expect(new Set(parts.map((part) => part.scanId))).to.deep.equal(new Set([scanId]));
    expect(new Set(parts.flatMap(({ keytabs }) => keytabs.map(({ filePath }) => filePath))).size).to.equal(450);
  });

  it("tells all that could not be read before it is complete", () => {
    const errors = Array.from({ length: 1100 }, (_, index) => ({ path: `/etc/${index}`, reason: "no" }));

    const parts = partsOf({ keytabs: several(3), errors });

    expect(parts.flatMap((part) => part.errors).length).to.equal(1100);
    expect(parts.at(-1)).to.include({ complete: true });
    expect(parts.at(-1)?.errors.length).to.be.greaterThan(0);
  });

  it("keeps parts small whatever the files say of themselves", () => {
    const parts = partsOf({ keytabs: several(200, { principal: `${"p".repeat(8000)}@R`, realm: "R".repeat(8000) }) });

    expect(parts.flatMap(({ keytabs }) => keytabs).length).to.equal(200);
    for (const part of parts) expect(toBinary(ReportKeytabsRequestSchema, part).length).to.be.lessThan(1024 * 1024);
  });

  it("says of files that it cannot describe that it cannot, so that none keeps others out", () => {
    const keytabs = [
      found("/etc/many-versions", { kvnos: Array.from({ length: 1001 }, (_, index) => index) }),
      found("/etc/many-types", { encryptionTypes: Array.from({ length: 1001 }, (_, index) => `etype-${index}`) }),
      found("/etc/long-principal", { principal: "p".repeat(9000) }),
      found("/etc/long-owner", { owner: `${"u".repeat(200)}:${"g".repeat(200)}` }),
      found("/etc/fine"),
    ];
    const validator = createValidator();

    const parts = partsOf({ keytabs, errors: [{ path: "/x", reason: "r".repeat(2000) }] });

    expect(parts.flatMap((part) => part.keytabs.map(({ filePath }) => filePath))).to.deep.equal(["/etc/fine"]);
    expect(parts.flatMap((part) => part.errors.map(({ path }) => path))).to.have.members([
      "/x",
      ...keytabs.slice(0, 4).map(({ filePath }) => filePath),
    ]);
    for (const part of parts) expect(validator.validate(ReportKeytabsRequestSchema, part).kind).to.equal("valid");
  });
});
