import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { awsSecretsManager } from "../../../src/targets/destinations/aws-secrets-manager.ts";
import { AwsServer } from "../../harness/aws-server.ts";
import { randomFrom } from "../../harness/random.ts";
import {
  answers,
  answersGarbage,
  answersTooMuch,
  breaksOff,
  cutsShort,
  hangs,
  redirectsTo,
  type Trouble,
} from "../../harness/trouble.ts";
import {
  entryOf,
  failureOf,
  linkId,
  never,
  otherLinkId,
  outbound,
  packagesLoadedWith,
  siteOf,
  targetErrorOf,
} from "./writing.ts";

const name = "app/db";
const fault = (type: string, status = 400, headers = {}): Trouble =>
  answers(status, JSON.stringify({ __type: type, message: `Value '${entryOf().value}' is not good` }), headers);

describe("Links to AWS Secrets Manager", () => {
  const aws = new AwsServer();
  before(() => aws.start());
  afterEach(() => aws.reset());
  after(() => aws.stop());

  const writer = awsSecretsManager.open({ outbound });
  const site = (config: JsonObject = {}, credentials: JsonObject = {}) =>
    siteOf(
      { region: "eu-west-1", secret_name: name, endpoint_url: aws.url, ...config },
      { ...aws.identity, ...credentials },
    );
  const write = (fields = {}, config = {}, signal = never) => writer.write(entryOf(fields), site(config), signal);
  const remove = (fields = {}, config = {}) => writer.remove(entryOf(fields), site(config), never);
  const operations = () => aws.requests.map(({ operation }) => operation);
  const currentIn = (secret: string) => aws.valueAt(secret);

  describe("write", () => {
    it("makes a secret that says who made it", async () => {
      await write({ value: "v1" }, { kms_key_id: "alias/ours" });

      expect(currentIn(name)).to.equal("v1");
      expect(aws.secret(name)).to.deep.include({
        KmsKeyId: "alias/ours",
        Tags: [
          { Key: "managed-by", Value: "holdfast" },
          { Key: "holdfast:link", Value: linkId },
        ],
      });
    });

    it("puts a new version into the secret that it made, and leaves the previous one there", async () => {
      await write({ version: 1, value: "v1" });

      await write({ version: 2, value: "v2" });

      expect(currentIn(name)).to.equal("v2");
      expect(aws.valueAt(name, "AWSPREVIOUS")).to.equal("v1");
    });

    it("makes no second version when it is repeated", async () => {
      await write({ version: 1, value: "v1" });
      await write({ version: 2, value: "v2" });
      const before = aws.secret(name);

      await write({ version: 2, value: "v2" });

      expect(aws.secret(name)).to.deep.equal(before);
    });

    it("writes also what had another value under that version, as after a restored backup", async () => {
      await write({ version: 7, value: "of the lost time" });

      await write({ version: 7, value: "of now" });

      expect(currentIn(name)).to.equal("of now");
    });

    it("puts back what somebody changed in the secret that it made", async () => {
      await write({ version: 1, value: "v1" });
      aws.putByHand(name, "by hand");

      await write({ version: 1, value: "v1" });

      expect(currentIn(name)).to.equal("v1");
    });

    it("writes values of 64 KiB, with whatever characters they have", async () => {
      const values = ["a".repeat(65_536), 'ä\u{1f511}\n\t\u0001"\\', "\u{2028}"];

      for (const [index, value] of values.entries()) {
        await write({ version: index + 1, value });

        expect(currentIn(name)).to.equal(value);
      }
    });

    it("changes the key of a secret that it made", async () => {
      await write({ value: "v1" }, { kms_key_id: "alias/one" });

      await write({ value: "v1" }, { kms_key_id: "alias/two" });

      expect(aws.secret(name)?.KmsKeyId).to.equal("alias/two");
      expect(operations().slice(2)).to.deep.equal(["DescribeSecret", "UpdateSecret", "PutSecretValue"]);
    });

    const sameKeys = [
      ["1234-abcd", "arn:aws:kms:eu-west-1:111122223333:key/1234-abcd"],
      ["alias/ours", "arn:aws:kms:eu-west-1:111122223333:alias/ours"],
      ["arn:aws:kms:eu-west-1:111122223333:key/1234-abcd", "1234-abcd"],
    ];
    for (const [ours = "", theirs = ""] of sameKeys) {
      it(`does not change the key ${ours}, of which AWS says ${theirs}`, async () => {
        aws.prefill(name, "v0", { KmsKeyId: theirs, Tags: [{ Key: "holdfast:link", Value: linkId }] });

        await write({ value: "v1" }, { kms_key_id: ours });

        expect(operations()).to.deep.equal(["DescribeSecret", "PutSecretValue"]);
      });
    }

    it("leaves the key as it is when the link names none", async () => {
      aws.prefill(name, "v0", { KmsKeyId: "alias/theirs", Tags: [{ Key: "holdfast:link", Value: linkId }] });

      await write();

      expect(aws.secret(name)?.KmsKeyId).to.equal("alias/theirs");
    });

    it("signs with the session token of temporary credentials", async () => {
      aws.sessionToken = "the+session/token==";

      await writer.write(entryOf(), site({}, { session_token: aws.sessionToken }), never);

      expect(currentIn(name)).to.equal(entryOf().value);
    });

    it("refuses an empty value, which AWS does not keep", async () => {
      const error = await targetErrorOf(write({ value: "" }));

      expect(error).to.include({ code: "invalid", permanent: true });
      expect(aws.requests).to.deep.equal([]);
    });
  });

  describe("secrets that the link did not make", () => {
    const foreign = {
      "without tags": [],
      "of another tool": [{ Key: "managed-by", Value: "terraform" }],
      "of another link": [
        { Key: "managed-by", Value: "holdfast" },
        { Key: "holdfast:link", Value: otherLinkId },
      ],
    };
    for (const [what, Tags] of Object.entries(foreign)) {
      it(`are neither written nor removed: one ${what}`, async () => {
        aws.prefill(name, "foreign", { Tags, KmsKeyId: "alias/theirs" });
        const before = aws.secret(name);

        const writing = await targetErrorOf(write({}, { kms_key_id: "alias/ours" }));
        const removing = await targetErrorOf(remove());

        for (const error of [writing, removing])
          expect(error).to.include({ code: "foreign", permanent: true, unchanged: true });
        expect(aws.secret(name)).to.deep.equal(before);
      });
    }

    it("are left alone also when they appear between the look and the write", async () => {
      aws.whenDone = () => {
        aws.whenDone = undefined;
        aws.prefill(name, "foreign");
      };

      const error = await targetErrorOf(write());

      expect(error.code).to.equal("foreign");
      expect(currentIn(name)).to.equal("foreign");
    });

    it("stay as they are during random work of several links", async () => {
      const random = randomFrom(20_261_120);
      const pick = <T>(all: readonly T[]) => all[Math.floor(random() * all.length)] as T;
      const foreign = ["f/1", "f/2", "f/3", "f/4", "f/5"];
      const own = Array.from({ length: 20 }, (_, index) => `o/${index}`);
      for (const each of foreign)
        aws.prefill(each, `foreign ${each}`, { Tags: [{ Key: "holdfast:link", Value: "somebody" }] });
      const before = foreign.map((each) => aws.secret(each));
      /** Who made which secret, and what is in it; no value when it was removed. */
      const made = new Map<string, { link: string; value?: string }>(
        foreign.map((each) => [each, { link: "somebody", value: `foreign ${each}` }]),
      );

      for (let version = 1; version <= 600; version++) {
        const [secret, link, removes] = [pick([...foreign, ...own]), pick([linkId, otherLinkId]), random() < 0.05];
        const [fields, config] = [{ linkId: link, version, value: `value ${version}` }, { secret_name: secret }];
        const there = made.get(secret);
        const outcome = await (removes ? remove(fields, config) : write(fields, config)).then(
          () => "done",
          (error) => error.code,
        );

        const isForeign = there !== undefined && there.link !== link;
        const isRemoved = there !== undefined && there.value === undefined;
        expect(outcome).to.equal(isForeign ? "foreign" : isRemoved && !removes ? "refused" : "done");
        if (outcome !== "done") continue;
        if (!removes) made.set(secret, { link, value: fields.value });
        else if (there !== undefined) made.set(secret, { link });
      }

      expect(foreign.map((each) => aws.secret(each))).to.deep.equal(before);
      for (const [secret, { value }] of made) if (value !== undefined) expect(currentIn(secret)).to.equal(value);
    }).timeout(60_000);
  });

  describe("remove", () => {
    it("has the secret deleted with time to restore it", async () => {
      await write();

      await remove();

      expect(aws.secret(name)?.DeletedDate).to.be.closeTo(Date.now() / 1000 + 7 * 86_400, 3600);
      expect(currentIn(name)).to.equal(entryOf().value);
    });

    it("is done when it was done before, or there is nothing", async () => {
      await remove();
      await write();
      await remove();

      await remove();

      expect(operations().filter((each) => each === "DeleteSecret")).to.have.length(1);
    });

    it("is not done before AWS says so", async () => {
      await write();
      aws.troubles = [undefined, answers(200, "{}")];

      const error = await targetErrorOf(remove());

      expect(error.message).to.contain("did not confirm");
    });

    it("is not undone by a write", async () => {
      await write();
      await remove();

      const error = await targetErrorOf(write({ version: 2 }));

      expect(error).to.include({ code: "refused", permanent: false });
      expect(error.message).to.contain("about to delete");
    });
  });

  describe("attempts that end early", () => {
    const situations: Record<string, { readonly requests: number; readonly prepare: () => Promise<void> }> = {
      "a secret that is not there": { requests: 2, prepare: async () => {} },
      "its own secret": {
        requests: 2,
        prepare: () => write({ version: 1, value: "v1" }, { kms_key_id: "alias/new" }),
      },
      "its own secret under another key": {
        requests: 3,
        prepare: () => write({ version: 1, value: "v1" }, { kms_key_id: "alias/old" }),
      },
    };
    for (const [what, { requests, prepare }] of Object.entries(situations)) {
      for (let nth = 1; nth <= requests; nth++) {
        for (const done of [false, true]) {
          it(`at request ${nth} of a write to ${what}, ${done ? "done" : "not done"}, are made good by the next`, async () => {
            await prepare();
            const abort = new AbortController();
            let count = 0;
            aws.troubles = [...Array.from({ length: nth - 1 }, () => undefined), hangs({ done })];
            aws.whenDone = () => {
              count++;
              if (count === nth) abort.abort(new Error("enough"));
            };
            const config = { kms_key_id: "alias/new" };

            const error = await failureOf(write({ version: 2, value: "v2" }, config, abort.signal));
            aws.whenDone = undefined;
            await write({ version: 2, value: "v2" }, config);

            expect(error).to.have.property("message", "enough");
            expect(currentIn(name)).to.equal("v2");
            const versions = Object.keys(aws.secret(name)?.versions ?? {});
            expect(versions).to.have.length(what === "a secret that is not there" ? 1 : 2);
          });
        }
      }
    }
  });

  describe("failures", () => {
    const expected: Record<string, [Trouble, object, RegExp]> = {
      throttling: [
        fault("ThrottlingException", 400, { "retry-after": "7" }),
        { code: "refused", permanent: false, retryAfterMs: 7000 },
        /asked too often/,
      ],
      "an error of AWS": [
        fault("InternalServiceError", 500),
        { code: "refused", permanent: false, unchanged: false },
        /answered 500/,
      ],
      unavailability: [
        answers(503, "<html>", { "retry-after": "120" }),
        { code: "refused", permanent: false, retryAfterMs: 120_000 },
        /answered 503/,
      ],
      "an unknown key id": [fault("UnrecognizedClientException"), { code: "refused", permanent: true }, /credentials/],
      "a session that has expired": [fault("ExpiredTokenException"), { permanent: true }, /session token has expired/],
      "too many versions": [fault("LimitExceededException"), { permanent: false }, /as it allows/],
      "a value that AWS finds too long": [fault("ValidationException"), { permanent: true }, /does not take/],
      "a wrong parameter": [fault("InvalidParameterException"), { permanent: true }, /does not take/],
      "a key that cannot be used": [fault("EncryptionFailure"), { permanent: true }, /KMS key/],
      "a wrong clock": [
        answers(400, JSON.stringify({ __type: "InvalidSignatureException", message: "Signature expired: 2026..." })),
        { code: "refused" },
        /clock is wrong/,
      ],
      "an error without a name": [answers(400, "{}"), { code: "refused", permanent: true }, /answered 400/],
      "an error of whatever proxy": [answers(418, "teapot"), { code: "refused", permanent: true }, /answered 418/],
      "a redirect": [redirectsTo("http://127.0.0.1:1/"), { code: "refused", permanent: true }, /not followed/],
      "half an answer": [cutsShort, { code: "unreachable", permanent: false }, /AWS Secrets Manager: /],
      "a connection that ends": [breaksOff({ done: false }), { code: "unreachable" }, /AWS Secrets Manager: /],
      "an answer that is none": [answersGarbage, { code: "invalid", permanent: false }, /not understood/],
      "an endless answer": [answersTooMuch, { permanent: false }, /too long/],
    };
    for (const [what, [trouble, fields, message]] of Object.entries(expected)) {
      for (const nth of [1, 2]) {
        it(`are told apart, and tell nothing secret: ${what} to request ${nth}`, async () => {
          aws.troubles = nth === 1 ? [trouble] : [undefined, trouble];

          const error = await targetErrorOf(write());

          expect(error).to.include(fields);
          expect(error.message).to.match(message);
          const told = inspect(error, { depth: 20, showHidden: true });
          for (const secret of [entryOf().value, aws.identity.secret_access_key]) expect(told).not.to.contain(secret);
        });
      }
    }

    it("name what the credentials do not allow", async () => {
      aws.allowed = new Set(["DescribeSecret"]);

      const error = await targetErrorOf(write());

      expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
      expect(error.message).to.contain("secretsmanager:CreateSecret");
    });

    it("are not tried again within the attempt", async () => {
      aws.troubles = [fault("ThrottlingException"), undefined];

      await failureOf(write());

      expect(aws.troubles).to.have.length(1);
    });

    it("name a wrong secret access key", async () => {
      const wrong = site({}, { secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYWRONG" });

      const error = await targetErrorOf(writer.write(entryOf(), wrong, never));

      expect(error.message).to.contain("refused the signature");
    });

    it("name a version that AWS does not make the current one", async () => {
      const unconfirmed = answers(200, JSON.stringify({ VersionId: "another", VersionStages: ["AWSPENDING"] }));
      aws.troubles = [undefined, unconfirmed];

      const error = await targetErrorOf(write());

      expect(error.message).to.contain("did not confirm");
    });
  });

  describe("credentials", () => {
    const own = { ...process.env };
    let trap: Server;
    let trapped: number;
    beforeEach(async () => {
      trapped = 0;
      trap = createServer((_, response) => {
        trapped++;
        response.end("{}");
      });
      await new Promise<void>((resolve) => trap.listen(0, "127.0.0.1", resolve));
      const url = `http://127.0.0.1:${(trap.address() as AddressInfo).port}`;
      Object.assign(process.env, {
        AWS_ACCESS_KEY_ID: "AKIAOFTHEMACHINE0000",
        AWS_SECRET_ACCESS_KEY: "of the machine",
        AWS_SESSION_TOKEN: "of the machine",
        AWS_REGION: "us-east-1",
        AWS_PROFILE: "of-the-machine",
        AWS_ENDPOINT_URL: url,
        AWS_ENDPOINT_URL_SECRETS_MANAGER: url,
        AWS_CONTAINER_CREDENTIALS_FULL_URI: url,
        AWS_EC2_METADATA_SERVICE_ENDPOINT: url,
        AWS_MAX_ATTEMPTS: "5",
        AWS_USE_FIPS_ENDPOINT: "true",
        AWS_DEFAULTS_MODE: "auto",
        HTTP_PROXY: url,
        HTTPS_PROXY: url,
      });
    });
    afterEach(() => {
      for (const name of Object.keys(process.env)) if (!Object.hasOwn(own, name)) delete process.env[name];
      Object.assign(process.env, own);
      trap.closeAllConnections();
      trap.close();
    });

    it("are the link's, and region and endpoint too, whatever this machine has", async () => {
      await write();

      const headers = aws.requests[0]?.headers;
      expect(headers?.authorization).to.contain(`Credential=${aws.identity.access_key_id}/`).and.contain("/eu-west-1/");
      expect(headers).not.to.have.property("x-amz-security-token");
      expect(currentIn(name)).to.equal(entryOf().value);
      expect(trapped).to.equal(0);
    });

    it("are not this machine's when the link has none", async () => {
      const without = { ...site(), credentials: {} };

      await failureOf(writer.write(entryOf(), without, never));

      expect(aws.requests).to.deep.equal([]);
      expect(trapped).to.equal(0);
    });

    it("are required", () => {
      expect(awsSecretsManager.faults?.({})).to.deep.equal([
        { field: "access_key_id", message: "is required" },
        { field: "secret_access_key", message: "is required" },
      ]);
      expect(awsSecretsManager.faults?.({ ...aws.identity })).to.deep.equal([]);
    });
  });

  it("cost a server that has none no SDK in memory", async () => {
    const loaded = await packagesLoadedWith("aws-secrets-manager.ts");

    expect(loaded).to.include("zod");
    expect(loaded.filter((name) => /^@(aws-sdk|smithy|kubernetes)/.test(name))).to.deep.equal([]);
  });

  describe("configuration", () => {
    const accepts = (given: JsonObject) => awsSecretsManager.config("DB_PASSWORD").safeParse(given).success;
    const originOf = (region: string) => awsSecretsManager.place({ region, secret_name: name }).origin;

    it("takes regions, names and keys as AWS has them", () => {
      for (const region of ["eu-west-1", "us-gov-west-1", "ap-southeast-12", "cn-north-1", "eusc-de-east-1"])
        expect(accepts({ region, secret_name: name })).to.equal(true, region);
      for (const region of ["", "eu", "eu-west-1.example.com", "eu-west-1/", "EU-WEST-1", "eu-west-1@x", "eu_west_1"])
        expect(accepts({ region, secret_name: name })).to.equal(false, region);
      for (const secret of ["a", "a/b_c+d=e.f@g-h", "a".repeat(512)])
        expect(accepts({ region: "eu-west-1", secret_name: secret })).to.equal(true, secret);
      for (const secret of ["", "a b", "a".repeat(513), "arn:aws:secretsmanager:eu-west-1:1:secret:a", "ä", "a\n"])
        expect(accepts({ region: "eu-west-1", secret_name: secret })).to.equal(false, secret);
    });

    it("demands a region and a name, and knows no more than what is said", () => {
      expect(accepts({ secret_name: name })).to.equal(false);
      expect(accepts({ region: "eu-west-1" })).to.equal(false);
      expect(accepts({ region: "eu-west-1", secret_name: name, more: 1 })).to.equal(false);
      expect(accepts({ region: "eu-west-1", secret_name: name, endpoint_url: "ftp://a" })).to.equal(false);
    });

    it("leads to the endpoint of the region, in whichever partition it is", () => {
      expect(originOf("eu-west-1")).to.equal("https://secretsmanager.eu-west-1.amazonaws.com");
      expect(originOf("us-gov-west-1")).to.equal("https://secretsmanager.us-gov-west-1.amazonaws.com");
      expect(originOf("cn-north-1")).to.equal("https://secretsmanager.cn-north-1.amazonaws.com.cn");
      expect(originOf("eusc-de-east-1")).to.equal("https://secretsmanager.eusc-de-east-1.amazonaws.eu");
    });

    it("names the same place however the endpoint is written", () => {
      const placeOf = (endpoint_url: string) => {
        const config = { region: "eu-west-1", secret_name: name, endpoint_url };
        return awsSecretsManager.place(awsSecretsManager.config("DB_PASSWORD").parse(config));
      };

      expect(placeOf("HTTPS://Secrets.Example.com:443")).to.deep.equal(placeOf("https://secrets.example.com/"));
      expect(placeOf("https://a.example.com")).not.to.deep.equal(placeOf("https://b.example.com"));
    });
  });
});
