import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/governance/reports";
const json = { "content-type": "application/json" };

/** A body that is a string is sent as it is. */
const send = (body: unknown) => server.admin.rest("POST", path, body, json);

interface Fault {
  readonly field: string;
  readonly message: string;
}

async function refused(body: unknown): Promise<Fault[]> {
  const answer = await send(body);
  expect(answer.status, JSON.stringify(answer.body)).to.equal(400);
  expect(answer.body.error.code).to.equal("VALIDATION_ERROR");
  return answer.body.error.details;
}
const fieldsOf = async (body: unknown) => (await refused(body)).map(({ field }) => field);

describe("The body of an import", () => {
  it("is a report, or holds one and nothing else", async () => {
    const report = { rotation_policy: { max_secret_rotation_days: 90 } };

    for (const body of [report, { report }]) expect((await send(body)).body.report).to.deep.equal(report);
  });

  it("may be empty, which is a report without rules", async () => {
    for (const body of ["", {}, { report: {} }]) {
      const answer = await send(body);

      expect(answer.status).to.equal(201);
      expect(answer.body.report).to.deep.equal({});
      expect(answer.body.evaluation).to.deep.include({
        status: "compliant",
        summary: { rules: 0, passed: 0, failed: 0, not_applicable: 0, not_evaluated: 0 },
        results: [],
      });
    }
  });

  it("that holds a report holds nothing beside it, of which each is named", async () => {
    expect(await fieldsOf({ report: {}, foo: 1, mfa_policy: {} })).to.deep.equal(["foo", "mfa_policy"]);
    expect(await fieldsOf({ foo: 1 })).to.deep.equal(["foo"]);
  });

  it("makes no mask of its own: what it mentions says what was meant", async () => {
    expect(await fieldsOf({ report: {}, update_mask: "report" })).to.deep.equal(["update_mask"]);
    expect(await fieldsOf({ update_mask: "report" })).to.deep.equal(["update_mask"]);
  });

  it("with anything else for a report is refused as that", async () => {
    for (const report of [null, [], "x", 5, true]) {
      expect(await refused({ report })).to.deep.equal([{ field: "report", message: "must be an object" }]);
    }
  });

  it("is told as it was written: a key twice, no object, no JSON", async () => {
    const cases = [
      '{"mfa_policy":{},"mfa_policy":{}}',
      '{"mfa_policy":{"foo":1,"foo":1}}',
      "[]",
      "null",
      '{"mfa_policy":',
    ];

    for (const body of cases) expect(await fieldsOf(body), body).to.deep.equal(["body"]);
  });

  it("tells rules, types and unknown properties together", async () => {
    const certificatePolicy = {
      min_key_size_rsa: 1024,
      allowed_algorithms: ["RSA", 5, "DSA"],
      max_validity_days: "90",
    };

    expect(await refused({ certificate_policy: certificatePolicy, foo: {} })).to.have.deep.members([
      { field: "foo", message: "is not known here" },
      { field: "certificate_policy.allowed_algorithms[1]", message: "must be a string" },
      { field: "certificate_policy.max_validity_days", message: "must be an integer of 32 bits" },
      { field: "certificate_policy.min_key_size_rsa", message: "must be in list [2048, 3072, 4096]" },
      { field: "certificate_policy.allowed_algorithms[2]", message: "must be in list [RSA, ECDSA, Ed25519]" },
    ]);
  });

  it("may say what cannot be met: that is found when it is evaluated", async () => {
    const { status, body } = await send({ password_policy: { min_length: 20, max_length: 10 } });

    expect(status).to.equal(201);
    expect(body.evaluation.status).to.equal("non_compliant");
  });

  it("is at most 64 KiB as JSON", async () => {
    const list = Array(50).fill("😀".repeat(256));

    const { status } = await send({ mfa_policy: { required_methods: list } });
    const faults = await refused({
      mfa_policy: { required_methods: list },
      encryption_policy: { required_cipher_suites: list },
    });

    expect(status).to.equal(201);
    expect(faults).to.deep.equal([{ field: "body", message: "must be at most 65536 bytes as JSON" }]);
  });
});

describe("A hostile import", () => {
  /** Other calls go on meanwhile, so what is measured is what one of them waits. */
  const mostMs = 3000;

  async function inTime<T>(work: () => Promise<T>): Promise<T> {
    const began = performance.now();
    const result = await work();
    expect(performance.now() - began).to.be.below(mostMs);
    return result;
  }

  it("with 10,000 unknown properties is told of a hundred", async () => {
    const unknown = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`k${at}`, { a: [at] }]));

    for (const body of [unknown, { report: unknown }, { report: {}, ...unknown }, { mfa_policy: unknown }]) {
      expect(await inTime(() => fieldsOf(body))).to.have.length(100);
    }
  });

  it("with an endless property name is told its beginning", async () => {
    const [field = ""] = await inTime(() => fieldsOf({ ["k".repeat(1_000_000)]: 1 }));

    expect(field).to.match(/^k+$/).and.to.have.length.below(300);
  });

  it("with a list of a million items is told that it is too long", async () => {
    const list = Array(500_000).fill(1);

    const fields = await inTime(() => fieldsOf({ naming_policy: { required_patterns: list } }));

    expect(fields).to.have.length.within(1, 101);
    expect(fields).to.include("naming_policy.required_patterns");
  });

  it("that is nested deeply is refused, whether that is within 32 levels or beyond", async () => {
    const nested = (depth: number) => `{"foo":${"[".repeat(depth)}${"]".repeat(depth)}}`;

    expect(await fieldsOf(nested(30))).to.deep.equal(["foo"]);
    expect(await inTime(() => fieldsOf(nested(500_000)))).to.deep.equal(["body"]);
  });

  it("with names that every object has finds none of them", async () => {
    const names = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "prototype"];
    const properties = names.map((name) => `${JSON.stringify(name)}:{"min_length":1}`).join(",");

    expect(await fieldsOf(`{${properties}}`)).to.deep.equal(names);
    expect(await fieldsOf(`{"report":{${properties}}}`)).to.deep.equal(names);
    expect(await fieldsOf(`{"password_policy":{${properties}}}`)).to.deep.equal(
      names.map((name) => `password_policy.${name}`),
    );
  });
});

describe("The patterns of a naming policy", () => {
  it("are refused one by one when they are not of the syntax of RE2", async () => {
    const message = "must be a regular expression in the syntax of RE2";

    const faults = await refused({
      naming_policy: { required_patterns: ["^a", "(", "(?=a)"], forbidden_patterns: ["(a)\\1", "b"] },
    });

    expect(faults).to.deep.equal([
      { field: "naming_policy.required_patterns[1]", message },
      { field: "naming_policy.required_patterns[2]", message },
      { field: "naming_policy.forbidden_patterns[0]", message },
    ]);
  });

  it("that would take another engine years take no time", async () => {
    await server.secret({ key: `${"a".repeat(200)}!` });
    const patterns = ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*a){12}$", "^(([a-z])+.)+[A-Z]([a-z])+$"];
    const began = performance.now();

    const { status } = await send({ naming_policy: { forbidden_patterns: patterns } });

    expect(status).to.equal(201);
    expect(performance.now() - began).to.be.below(3000);
  });

  it("that would become large programs are refused, and those behind them are not looked at", async () => {
    const large = "\\pL{1000}".repeat(28);
    const began = performance.now();

    const faults = await refused({ naming_policy: { required_patterns: ["a", ...Array(49).fill(large)] } });

    expect(faults).to.deep.equal([
      { field: "naming_policy.required_patterns[1]", message: "is too large, together with the patterns before it" },
    ]);
    expect(performance.now() - began).to.be.below(2000);
  });

  it("may be fifty usual ones in each list", async () => {
    const usual = Array(50).fill("^[A-Z][A-Z0-9]{1,30}(_[A-Z0-9]{1,30})*$");

    const { status } = await send({ naming_policy: { required_patterns: usual, forbidden_patterns: usual } });

    expect(status).to.equal(201);
  });
});
