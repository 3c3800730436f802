import { create, type DescMessage, fromBinary, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { expect } from "chai";
import { BadRequestSchema } from "../../../gen/ts/google/rpc/error_details_pb.ts";
import {
  GovernanceReportService,
  ImportGovernanceReportRequestSchema,
  PasswordPolicySchema,
} from "../../../gen/ts/holdfast/governance/v1/governance_report_service_pb.ts";
import { readDescriptors } from "../../../src/contract/generate-openapi.ts";
import type { FieldFault } from "../../../src/server/errors.ts";
import { noteUnknownFields, readClosed, type Spelling } from "../../../src/standards/closed-messages.ts";
import { useServer } from "../../harness/server.ts";
import { faultsOf, refusalOf } from "./refused-call.ts";

const registry = readDescriptors("test/proto");

function schemaOf(name: string): DescMessage {
  const schema = registry.getMessage(`closed.${name}`);
  if (schema === undefined) throw new Error(`test/proto has lost ${name}`);
  return schema;
}

/** What is kept of JSON, and what is told of the rest. */
function read(name: string, given: unknown, spelling: Spelling = "declared") {
  const faults: FieldFault[] = [];
  const kept = readClosed(schemaOf(name), given as Record<string, unknown>, spelling, faults);
  return { kept, told: faults.map(({ field, message }) => `${field} ${message}`) };
}

/** The bytes of a message, with one more field of text. */
const withField = (bytes: Uint8Array, number: number, text = "x") =>
  Buffer.concat([bytes, new BinaryWriter().tag(number, WireType.LengthDelimited).string(text).finish()]);

describe("A closed message in JSON", () => {
  it("keeps what it declares, by its name or its alias", () => {
    const { kept, told } = read("Box", { caption: "a", lids: [{ width_mm: 5 }], sticker: { text: "s" } });

    expect(kept).to.deep.equal({ label: "a", lids: [{ width_mm: 5 }], sticker: { text: "s" } });
    expect(told).to.deep.equal([]);
  });

  it("names what it does not declare, in items of lists too, and leaves it out", () => {
    const { kept, told } = read("Box", { label: "a", color: "red", lids: [{ width_mm: 5 }, { widthMm: 6 }, 7] });

    expect(kept).to.deep.equal({ label: "a", lids: [{ width_mm: 5 }, {}, {}] });
    expect(told).to.deep.equal([
      "color is not known here",
      "lids[1].widthMm is not known here",
      "lids[2] must be an object",
    ]);
  });

  it("leaves a blank for an item of the wrong type, so that the others keep their places", () => {
    const { kept, told } = read("Box", { sizes: [1, "2", 2 ** 31, 4], dents: [true, 0] });

    expect(kept).to.deep.equal({ sizes: [1, 0, 0, 4], dents: [true, false] });
    expect(told).to.deep.equal([
      "sizes[1] must be an integer of 32 bits",
      "sizes[2] must be an integer of 32 bits",
      "dents[1] must be true or false",
    ]);
  });

  it("is as closed within an open message, which itself takes anything", () => {
    const open = { name: 5, color: null, box: null };
    const { kept, told } = read("Shelf", { ...open, topBox: { x: 1 }, boxes: [{}, { lids: [{ y: 1 }] }] });

    expect(kept).to.deep.equal({ ...open, top_box: {}, boxes: [{}, { lids: [{}] }] });
    expect(told).to.deep.equal(["top_box.x is not known here", "boxes[1].lids[0].y is not known here"]);
  });

  it("leaves an open message within it as it is", () => {
    const sticker = { text: "s", more: { and: ["more"] } };

    expect(read("Box", { sticker })).to.deep.equal({ kept: { sticker }, told: [] });
  });

  it("takes a field once, by whichever of its names", () => {
    const { told } = read("Box", { label: "a", caption: "a" });

    expect(told).to.deep.equal(["label is given twice"]);
  });

  it("takes the names of proto JSON where that is spoken, and no aliases", () => {
    const given = { lids: [{ widthMm: 5 }, { width_mm: 6 }], caption: "a" };

    const { kept, told } = read("Box", given, "protoJson");

    expect(kept).to.deep.equal({ lids: [{ width_mm: 5 }, { width_mm: 6 }] });
    expect(told).to.deep.equal(["caption is not known here"]);
  });

  it("tells a hundred faults at most, and of a long name its beginning", () => {
    const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`k${at}`, at]));
    const [{ told }, long] = [read("Box", many), read("Box", { ["k".repeat(100_000)]: 1 })];

    expect(told).to.have.length(100);
    expect(long.told[0]?.length).to.be.below(300);
  });

  it("takes nothing for a property that every object has", () => {
    const given = JSON.parse('{"__proto__":{"label":"p"},"constructor":1,"box":{"__proto__":{"label":"p"}}}');
    const { kept, told } = read("Shelf", given);

    expect(told).to.deep.equal(["box.__proto__ is not known here"]);
    expect(Object.getPrototypeOf(kept)).to.equal(Object.prototype);
    expect((kept["box"] as { label?: unknown }).label).to.equal(undefined);
  });

  it("of a kind that is not served stops whoever declares it", () => {
    expect(() => read("Crate", {})).to.throw("Crate.notes has a kind that closed messages do not have yet");
  });
});

describe("A closed message in bytes", () => {
  const told = (bytes: Uint8Array) => {
    const faults: FieldFault[] = [];
    noteUnknownFields(schemaOf("Shelf"), fromBinary(schemaOf("Shelf"), bytes), faults);
    return faults.map(({ field, message }) => `${field} ${message}`);
  };
  const shelf = (json: object) => toBinary(schemaOf("Shelf"), create(schemaOf("Shelf"), json as never));

  it("is told each field number that it does not declare, once, and where", () => {
    const lid = withField(withField(new Uint8Array(), 77), 77);
    const box = Buffer.concat([withField(new Uint8Array(), 99), bytesField(2, lid)]);

    expect(
      told(Buffer.concat([bytesField(2, box), bytesField(3, new Uint8Array()), bytesField(3, lid)])),
    ).to.deep.equal(["box has no field 99", "box.lids[0] has no field 77", "boxes[1] has no field 77"]);
  });

  it("may hold what it declares, and an open message around it anything", () => {
    expect(told(withField(shelf({ name: "n", box: { label: "a" } }), 99))).to.deep.equal([]);
  });
});

const bytesField = (number: number, bytes: Uint8Array) =>
  new BinaryWriter().tag(number, WireType.LengthDelimited).bytes(bytes).finish();

describe("A closed message of a call", () => {
  const server = useServer();
  const url = "/holdfast.governance.v1.GovernanceReportService/ImportGovernanceReport";

  const transports: Readonly<Record<string, (baseUrl: string) => Transport>> = {
    gRPC: (baseUrl) => createGrpcTransport({ baseUrl }),
    "gRPC-Web": (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" }),
    "Connect with binary messages": (baseUrl) =>
      createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: true }),
  };
  for (const [name, transport] of Object.entries(transports)) {
    it(`is refused over ${name} for a field that it does not declare, beside the rules that it breaks`, async () => {
      const password = withField(toBinary(PasswordPolicySchema, create(PasswordPolicySchema, { minLength: 0 })), 99);
      const report = withField(bytesField(1, password), 98);
      const request = fromBinary(ImportGovernanceReportRequestSchema, withField(bytesField(1, report), 97));
      const client = createClient(GovernanceReportService, transport(server.url));

      const refusal = await refusalOf(
        client.importGovernanceReport(request, { headers: { authorization: `Bearer ${server.admin.token}` } }),
      );

      expect(faultsOf(refusal)).to.have.members([
        "body has no field 97",
        "report has no field 98",
        "password_policy has no field 99",
        "password_policy.min_length must be greater than or equal to 1",
      ]);
    });
  }

  it("is refused over Connect with JSON for what it does not declare and for other types, and takes names in camelCase", async () => {
    const report = { passwordPolicy: { minLength: "8", min_length: 8, maxLength: 9, foo: 1 }, mfa_policy: null };

    const { status, body } = await server.admin.rest("POST", url, { report, more: 1 });

    expect(status).to.equal(400);
    const [{ value }] = body.details.filter(({ type }: { type: string }) => type === "google.rpc.BadRequest");
    const { fieldViolations } = fromBinary(BadRequestSchema, Buffer.from(value, "base64"));
    expect(fieldViolations.map(({ field }) => field)).to.deep.equal([
      "password_policy.min_length",
      "password_policy.foo",
      "mfa_policy",
      "more",
    ]);
  });

  it("is taken over Connect with JSON as clients write it, with its mask", async () => {
    const { status, body } = await server.admin.rest("POST", url, {
      report: { namingPolicy: { requiredPatterns: [] }, mfaPolicy: {} },
      updateMask: "report.namingPolicy.requiredPatterns",
    });
    const read = await server.admin.rest("GET", `/api/v1/governance/reports/${body.id}`);

    expect(status).to.equal(200);
    expect(read.body.report).to.deep.equal({ naming_policy: { required_patterns: [] }, mfa_policy: {} });
  });
});
