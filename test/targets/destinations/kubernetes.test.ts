import { inspect } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { kubernetes } from "../../../src/targets/destinations/kubernetes.ts";
import { markOf } from "../../../src/targets/destinations/kubernetes-secret.ts";
import { KubernetesServer } from "../../harness/kubernetes-server.ts";
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
import { makeCertificate } from "../../server/wire/certificate.ts";
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

const certificate = makeCertificate();
after(() => certificate?.remove());
if (certificate === undefined) console.log("clusters' own authorities are not tested: this machine has no openssl");

const name = "app-credentials";
const dataKey = "DB_PASSWORD";

/** A failure as a cluster says it, which repeats what it was sent. */
const failure = (code: number, reason: string, message: string, details: JsonObject = {}, headers = {}): Trouble =>
  answers(
    code,
    JSON.stringify({ kind: "Status", code, reason, message: `${message} ${entryOf().value}`, details }),
    headers,
  );

describe("Links to Kubernetes", () => {
  const cluster = new KubernetesServer();
  before(() => cluster.start());
  afterEach(() => cluster.reset());
  after(() => cluster.stop());

  const writer = kubernetes.open({ outbound });
  const site = (config: JsonObject = {}, token = cluster.token) =>
    siteOf({ api_server: cluster.url, namespace: "apps", secret_name: name, data_key: dataKey, ...config }, { token });
  const write = (fields = {}, config = {}, signal = never) => writer.write(entryOf(fields), site(config), signal);
  const remove = (fields = {}, config = {}) => writer.remove(entryOf(fields), site(config), never);
  const methods = () => cluster.requests.map(({ method }) => method);
  const marks = (...keys: string[]) => Object.fromEntries(keys.map((key) => [markOf(key), linkId]));

  describe("write", () => {
    it("makes a Secret that says who made it", async () => {
      await write({ value: "v1" });

      expect(cluster.valueAt(name, dataKey)).to.equal("v1");
      expect(cluster.secret(name)).to.include({ type: "Opaque" });
      expect(cluster.secret(name)?.metadata).to.deep.include({
        labels: { "app.kubernetes.io/managed-by": "holdfast" },
        annotations: marks(dataKey),
      });
      expect(cluster.requests.at(-1)?.query.get("fieldManager")).to.equal("holdfast");
      expect(cluster.requests.at(-1)?.userAgent).to.match(/^holdfast\//);
    });

    it("changes the data key that it made", async () => {
      await write({ version: 1, value: "v1" });

      await write({ version: 2, value: "v2" });

      expect(cluster.valueAt(name, dataKey)).to.equal("v2");
    });

    it("adds its data key to a Secret of others, of which everything else stays as it is", async () => {
      const others = {
        type: "kubernetes.io/basic-auth",
        metadata: { labels: { app: "a" }, annotations: { note: "n" }, finalizers: ["example.com/f"] },
      };
      cluster.prefill(name, { username: "u", password: "p" }, others);

      await write({ value: "v1" });
      await write({ value: "v2" });

      const { data, metadata, ...rest } = cluster.secret(name) ?? {};
      expect(rest).to.deep.equal({ kind: "Secret", apiVersion: "v1", type: "kubernetes.io/basic-auth" });
      expect(data).to.deep.equal({ username: "dQ==", password: "cA==", [dataKey]: "djI=" });
      expect(metadata).to.deep.include({
        labels: { app: "a" },
        annotations: { note: "n", ...marks(dataKey) },
        finalizers: ["example.com/f"],
      });
    });

    it("changes nothing when the value is there already", async () => {
      await write();
      const before = cluster.secret(name);

      await write({ version: 2 });

      expect(cluster.secret(name)).to.deep.equal(before);
      expect(methods()).to.deep.equal(["GET", "POST", "GET"]);
    });

    it("puts back what somebody changed or removed of what it made", async () => {
      await write({ value: "v1" });

      for (const byHand of ["by hand", null]) {
        cluster.setByHand(name, { [dataKey]: byHand });
        await write({ value: "v1" });

        expect(cluster.valueAt(name, dataKey)).to.equal("v1");
      }
    });

    it("writes values with whatever characters they have, and empty ones", async () => {
      for (const value of ["a".repeat(65_536), 'ä\u{1f511}\n\t\u0001"\\', ""]) {
        await write({ value });

        expect(cluster.valueAt(name, dataKey)).to.equal(value);
      }
    });

    it("takes the longest data key", async () => {
      const longest = { data_key: `.${"a".repeat(252)}` };

      await write({ value: "v1" }, longest);
      await write({ value: "v2" }, longest);

      expect(cluster.valueAt(name, longest.data_key)).to.equal("v2");
    });

    it("lets several links write into one Secret", async () => {
      await Promise.all([write({ value: "v1" }), write({ linkId: otherLinkId, value: "w1" }, { data_key: "other" })]);

      expect(cluster.valueAt(name, dataKey)).to.equal("v1");
      expect(cluster.valueAt(name, "other")).to.equal("w1");
    });

    it("starts anew when somebody changes the Secret between the look and the write", async () => {
      cluster.prefill(name, { other: "o1" });
      cluster.whenDone = () => {
        cluster.whenDone = undefined;
        cluster.setByHand(name, { other: "o2" });
      };

      await write({ value: "v1" });

      expect(cluster.valueAt(name, "other")).to.equal("o2");
      expect(cluster.valueAt(name, dataKey)).to.equal("v1");
      expect(methods()).to.deep.equal(["GET", "PATCH", "GET", "PATCH"]);
    });

    it("makes a Secret anew that somebody removes between the look and the write", async () => {
      cluster.prefill(name, { other: "o" });
      cluster.whenDone = () => {
        cluster.whenDone = undefined;
        cluster.removeByHand(name);
      };

      await write({ value: "v1" });

      expect(cluster.secret(name)?.data).to.deep.equal({ [dataKey]: "djE=" });
    });

    it("gives up for this time when that goes on", async () => {
      cluster.prefill(name, { other: "o0" });
      cluster.whenDone = () => cluster.setByHand(name, { other: `o${cluster.requests.length}` });

      const error = await targetErrorOf(write());

      expect(error).to.include({ code: "refused", permanent: false });
      expect(cluster.requests.length).to.be.at.most(6);
    });

    it("says it when the cluster keeps something else", async () => {
      cluster.mutate = ({ data = {} }) => {
        data[dataKey] = "bXV0YXRlZA==";
      };

      const error = await targetErrorOf(write());

      expect(error.message).to.contain("keeps something else");
    });

    it("leaves an immutable Secret to be replaced by people", async () => {
      cluster.prefill(name, { other: "o" }, { immutable: true });

      const error = await targetErrorOf(write());

      expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
      expect(error.message).to.contain("immutable");
      expect(methods()).to.deep.equal(["GET"]);
    });
  });

  describe("data keys that the link did not make", () => {
    const foreign: Record<string, JsonObject> = {
      "without a mark": {},
      "with the mark of another data key": { annotations: marks("other") },
      "with the mark of another link": { annotations: { [markOf(dataKey)]: otherLinkId } },
      "in a Secret that a link made": { labels: { "app.kubernetes.io/managed-by": "holdfast" } },
    };
    for (const [what, metadata] of Object.entries(foreign)) {
      it(`are neither written nor removed: one ${what}`, async () => {
        cluster.prefill(name, { [dataKey]: "foreign" }, { metadata });
        const before = cluster.secret(name);

        const writing = await targetErrorOf(write());
        const removing = await targetErrorOf(remove());

        for (const error of [writing, removing])
          expect(error).to.include({ code: "foreign", permanent: true, unchanged: true });
        expect(cluster.secret(name)).to.deep.equal(before);
      });
    }

    for (const there of [true, false]) {
      it(`are left alone when they appear between the look and the write, the Secret ${there ? "" : "not "}there`, async () => {
        if (there) cluster.prefill(name, { other: "o" });
        cluster.whenDone = () => {
          cluster.whenDone = undefined;
          cluster.prefill(name, { [dataKey]: "foreign" });
        };

        const error = await targetErrorOf(write());

        expect(error.code).to.equal("foreign");
        expect(cluster.valueAt(name, dataKey)).to.equal("foreign");
      });
    }

    it("stay as they are during random work of several links", async () => {
      const random = randomFrom(20_261_120);
      const pick = <T>(all: readonly T[]) => all[Math.floor(random() * all.length)] as T;
      const foreign = { username: "u", password: "p" };
      const secrets = ["pre-filled", "labelled", "new"];
      const fields = { metadata: { labels: { team: "t" }, annotations: { note: "n" } } };
      cluster.prefill("pre-filled", foreign, fields);
      cluster.prefill("labelled", foreign, { metadata: { labels: { "app.kubernetes.io/managed-by": "holdfast" } } });
      /** Who made which data key, and its value. */
      const made = new Map<string, { link: string; value: string }>();
      for (const secret of ["pre-filled", "labelled"])
        for (const [key, value] of Object.entries(foreign)) made.set(`${secret} ${key}`, { link: "somebody", value });

      for (let version = 1; version <= 1000; version++) {
        const [secret, key] = [pick(secrets), pick(["username", "password", "one", "two"])];
        const [link, removes] = [pick([linkId, otherLinkId]), random() < 0.3];
        const config = { secret_name: secret, data_key: key };
        const entry = { linkId: link, version, value: `value ${version}` };
        const there = made.get(`${secret} ${key}`);
        const outcome = await (removes ? remove(entry, config) : write(entry, config)).then(
          () => "done",
          (error) => error.code,
        );

        expect(outcome).to.equal(there !== undefined && there.link !== link ? "foreign" : "done");
        if (outcome !== "done") continue;
        if (removes) made.delete(`${secret} ${key}`);
        else made.set(`${secret} ${key}`, { link, value: entry.value });
      }

      for (const secret of secrets) {
        const kept = Object.keys(cluster.secret(secret)?.data ?? {}).map((key) => [key, cluster.valueAt(secret, key)]);
        const expected = [...made].filter(([at]) => at.startsWith(`${secret} `));
        expect(Object.fromEntries(kept)).to.deep.equal(
          Object.fromEntries(expected.map(([at, { value }]) => [at.split(" ")[1], value])),
        );
      }
      const metadata = cluster.secret("pre-filled")?.metadata;
      expect(metadata?.["labels"]).to.deep.equal({ team: "t" });
      expect(metadata?.["annotations"]).to.include({ note: "n" });
    }).timeout(60_000);
  });

  describe("remove", () => {
    it("removes a Secret that it made and in which nothing else is", async () => {
      await write();

      await remove();

      expect(cluster.secret(name)).to.equal(undefined);
    });

    it("removes only its data key and mark from a Secret with others", async () => {
      cluster.prefill(name, { other: "o" }, { metadata: { annotations: { note: "n" } } });
      await write();

      await remove();

      expect(cluster.secret(name)?.data).to.deep.equal({ other: "bw==" });
      expect(cluster.secret(name)?.metadata).to.deep.include({ annotations: { note: "n" } });
    });

    it("leaves a Secret there that somebody else made, though nothing is left in it", async () => {
      cluster.prefill(name, {});
      await write();

      await remove();

      expect(cluster.secret(name)).to.be.an("object").and.not.to.have.property("data");
    });

    it("leaves a Secret there into which somebody put something meanwhile", async () => {
      await write();
      cluster.whenDone = () => {
        cluster.whenDone = undefined;
        cluster.setByHand(name, { other: "o" });
      };

      await remove();

      expect(cluster.secret(name)?.data).to.deep.equal({ other: "bw==" });
    });

    it("takes nothing out of an immutable Secret", async () => {
      cluster.prefill(
        name,
        { other: "o", [dataKey]: "v1" },
        { immutable: true, metadata: { annotations: marks(dataKey) } },
      );

      const error = await targetErrorOf(remove());

      expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
      expect(methods()).to.deep.equal(["GET"]);
    });

    it("is not done before the cluster says so", async () => {
      await write();
      cluster.troubles = [undefined, answers(200, "{}")];

      const error = await targetErrorOf(remove());

      expect(error.code).to.equal("invalid");
    });

    it("is done when the cluster says what it is about to delete", async () => {
      await write();
      cluster.troubles = [undefined, answers(200, JSON.stringify(cluster.secret(name)))];

      await remove();

      expect(cluster.troubles).to.deep.equal([]);
    });

    it("is done when it was done before, or there is nothing", async () => {
      await remove();
      await write();
      await remove();

      await remove();

      expect(methods().filter((each) => each === "DELETE")).to.have.length(1);
    });
  });

  describe("attempts that end early", () => {
    const situations: Record<string, () => Promise<void> | void> = {
      "a Secret that is not there": () => {},
      "a Secret of others": () => cluster.prefill(name, { other: "o" }),
      "its own data key": () => write({ version: 1, value: "v1" }),
    };
    for (const [what, prepare] of Object.entries(situations)) {
      for (const nth of [1, 2]) {
        for (const done of [false, true]) {
          it(`at request ${nth} of a write to ${what}, ${done ? "done" : "not done"}, are made good by the next`, async () => {
            await prepare();
            const abort = new AbortController();
            let count = 0;
            cluster.troubles = [...Array.from({ length: nth - 1 }, () => undefined), hangs({ done })];
            cluster.whenDone = () => {
              count++;
              if (count === nth) abort.abort(new Error("enough"));
            };

            const error = await failureOf(write({ version: 2, value: "v2" }, {}, abort.signal));
            cluster.whenDone = undefined;
            await write({ version: 2, value: "v2" });

            expect(error).to.have.property("message", "enough");
            expect(cluster.valueAt(name, dataKey)).to.equal("v2");
            expect(cluster.valueAt(name, "other")).to.equal(what === "a Secret of others" ? "o" : undefined);
          });
        }
      }
    }
  });

  describe("failures", () => {
    const secrets = { name, kind: "secrets" };
    const expected: Record<string, [Trouble, object, RegExp]> = {
      throttling: [
        failure(429, "TooManyRequests", "too many requests", {}, { "retry-after": "3" }),
        { code: "refused", permanent: false, retryAfterMs: 3000 },
        /answered 429/,
      ],
      "an error of the cluster": [
        failure(500, "InternalError", "etcdserver: timed out"),
        { code: "refused", permanent: false, unchanged: false },
        /answered 500/,
      ],
      unavailability: [answers(503, "<html>"), { code: "refused", permanent: false }, /answered 503/],
      "a webhook that refuses": [
        failure(400, "BadRequest", 'admission webhook "policy.example.com" denied the request: no'),
        { code: "refused", permanent: true },
        /did not admit/,
      ],
      "a policy that refuses": [
        failure(422, "Invalid", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"),
        { code: "refused", permanent: true },
        /did not admit/,
      ],
      "a quota that is used up": [
        failure(403, "Forbidden", 'secrets "a" is forbidden: exceeded quota: q', secrets),
        { code: "refused", permanent: false },
        /quota/,
      ],
      "a namespace that is not there": [
        failure(404, "NotFound", 'namespaces "apps" not found', { name: "apps", kind: "namespaces" }),
        { code: "refused", permanent: false },
        /no such namespace/,
      ],
      "a namespace that goes": [
        failure(403, "Forbidden", "forbidden", { ...secrets, causes: [{ reason: "NamespaceTerminating" }] }),
        { code: "refused" },
        /delete the namespace/,
      ],
      "a Secret that would be too large": [
        failure(422, "Invalid", "data: Too long", { causes: [{ reason: "FieldValueTooLong", field: "data" }] }),
        { permanent: true },
        /1 MiB/,
      ],
      "a Secret that became immutable": [
        failure(422, "Invalid", "data", { causes: [{ message: "field is immutable when `immutable` is set" }] }),
        { permanent: true },
        /immutable/,
      ],
      "another fault of the Secret": [failure(422, "Invalid", "data"), { permanent: true }, /does not take/],
      "an address that is no API server's": [answers(404, "404 page not found"), { permanent: true }, /answered 404/],
      "a redirect": [redirectsTo("http://127.0.0.1:1/"), { code: "refused", permanent: true }, /not followed/],
      "half an answer": [cutsShort, { code: "unreachable", permanent: false }, /Kubernetes: /],
      "a connection that ends": [breaksOff({ done: false }), { code: "unreachable" }, /Kubernetes: /],
      "an answer that is none": [answersGarbage, { code: "invalid", permanent: false }, /not understood/],
      "an answer of another kind": [answers(200, '{"kind":"ConfigMap"}'), { code: "invalid" }, /not understood/],
      "an answer about another Secret": [
        answers(200, '{"kind":"Secret","metadata":{"name":"other","namespace":"apps","resourceVersion":"1"}}'),
        { code: "invalid" },
        /not understood/,
      ],
      "an endless answer": [answersTooMuch, { permanent: false }, /too long/],
    };
    for (const [what, [trouble, fields, message]] of Object.entries(expected)) {
      for (const nth of [1, 2]) {
        it(`are told apart, and tell nothing secret: ${what} to request ${nth}`, async () => {
          cluster.troubles = nth === 1 ? [trouble] : [undefined, trouble];

          const error = await targetErrorOf(write());

          expect(error).to.include(fields);
          expect(error.message).to.match(message);
          const told = inspect(error, { depth: 20, showHidden: true });
          for (const secret of [entryOf().value, cluster.token]) expect(told).not.to.contain(secret);
        });
      }
    }

    for (const [verb, others] of Object.entries({ get: [], create: ["get"], patch: ["get"], delete: ["get"] })) {
      it(`name what the token does not allow: ${verb}`, async () => {
        if (verb === "patch") cluster.prefill(name, { other: "o" });
        if (verb === "delete") await write();
        cluster.allowed = new Set(others);

        const error = await targetErrorOf(verb === "delete" ? remove() : write());

        expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
        expect(error.message).to.contain(`to ${verb} secrets`);
      });
    }

    it("name a token that the cluster does not take", async () => {
      const error = await targetErrorOf(writer.write(entryOf(), site({}, "another"), never));

      expect(error).to.include({ code: "refused", permanent: true });
      expect(error.message).to.contain("refused the token");
    });
  });

  describe("of a cluster with its own authority", () => {
    if (certificate === undefined) return;
    const secure = new KubernetesServer(certificate);
    before(() => secure.start());
    after(() => secure.stop());
    const secureSite = (config: JsonObject = {}) => site({ api_server: secure.url, ...config });

    it("trust what the link says", async () => {
      await writer.write(entryOf(), secureSite({ ca_certificate_pem: certificate.cert.toString() }), never);

      expect(secure.valueAt(name, dataKey)).to.equal(entryOf().value);
    });

    it("send nothing where the link does not say it", async () => {
      secure.requests.length = 0;

      const error = await targetErrorOf(writer.write(entryOf(), secureSite(), never));

      expect(error).to.include({ code: "unreachable", unchanged: true });
      expect(secure.requests).to.deep.equal([]);
    });
  });

  it("reach also an API server below a path", async () => {
    const error = await targetErrorOf(write({}, { api_server: `${cluster.url}/k8s/clusters/c1` }));

    expect(error.message).to.contain("answered 404");
    expect(cluster.requests.at(-1)?.path).to.equal("/k8s/clusters/c1/api/v1/namespaces/apps/secrets/app-credentials");
  });

  it("cost a server that has none no client in memory", async () => {
    const loaded = await packagesLoadedWith("kubernetes.ts");

    expect(loaded).to.include("zod");
    expect(loaded.filter((name) => /^@(aws-sdk|smithy|kubernetes)/.test(name))).to.deep.equal([]);
  });

  describe("configuration", () => {
    const usual = { api_server: "https://k8s.example.com:6443", namespace: "apps", secret_name: name };
    const parsed = (given: JsonObject, key = dataKey) => kubernetes.config(key).safeParse({ ...usual, ...given });
    const accepts = (given: JsonObject, key?: string) => parsed(given, key).success;

    it("takes names as Kubernetes has them", () => {
      for (const namespace of ["a", "kube-system", "1a", "a".repeat(63)])
        expect(accepts({ namespace })).to.equal(true, namespace);
      for (const namespace of ["", "A", "a.b", "-a", "a-", "a".repeat(64), "a/b", "a\n"])
        expect(accepts({ namespace })).to.equal(false, namespace);
      for (const secret_name of ["a", "a.b-c.d", "1", "a".repeat(253)])
        expect(accepts({ secret_name })).to.equal(true, secret_name);
      for (const secret_name of ["", "A", "a..b", ".a", "a.", "a_b", "a".repeat(254), "a/b", "a\n"])
        expect(accepts({ secret_name })).to.equal(false, secret_name);
      for (const data_key of ["a", ".dockerconfigjson", "tls.crt", "A_b-c", "a".repeat(253)])
        expect(accepts({ data_key })).to.equal(true, data_key);
      for (const data_key of ["", ".", "..", "..a", "a b", "a/b", "ä", "a".repeat(254), "__proto__", "a\n"])
        expect(accepts({ data_key })).to.equal(false, data_key);
    });

    it("names the data key like the secret, if Kubernetes takes that", () => {
      expect(parsed({}, "db.password").data).to.include({ data_key: "db.password" });
      expect(parsed({ data_key: null }, "db.password").data).to.include({ data_key: "db.password" });
      expect(accepts({}, "db password")).to.equal(false);
      expect(accepts({ data_key: "db_password" }, "db password")).to.equal(true);
    });

    it("takes certificates in PEM, and nothing else for them", () => {
      expect(accepts({ ca_certificate_pem: "a certificate" })).to.equal(false);
      if (certificate !== undefined)
        expect(accepts({ ca_certificate_pem: certificate.cert.toString() })).to.equal(true);
    });

    it("demands an API server, a namespace, a name and a token, and knows no more than what is said", () => {
      for (const field of Object.keys(usual)) {
        const { [field]: _, ...rest } = usual as JsonObject;
        expect(kubernetes.config(dataKey).safeParse(rest).success).to.equal(false, field);
      }
      expect(accepts({ more: 1 })).to.equal(false);
      expect(kubernetes.faults?.({})).to.deep.equal([{ field: "token", message: "is required" }]);
      expect(kubernetes.faults?.({ token: "t" })).to.deep.equal([]);
      expect(kubernetes.credentials.safeParse({ token: "a\r\nb" }).success).to.equal(false);
    });

    it("names the same place however the API server is written", () => {
      const placeOf = (api_server: string) => kubernetes.place(parsed({ api_server }).data as JsonObject);

      expect(placeOf("HTTPS://K8s.Example.com:443/")).to.deep.equal(placeOf("https://k8s.example.com"));
      expect(placeOf("https://k8s.example.com:6443").origin).to.equal("https://k8s.example.com:6443");
    });
  });
});
