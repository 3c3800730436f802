import { inspect } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { randomFrom } from "../../harness/random.ts";
import {
  answers,
  answersForever,
  answersGarbage,
  answersTooMuch,
  breaksOff,
  cutsShort,
  hangs,
  redirectsTo,
  type Trouble,
} from "../../harness/trouble.ts";
import { VaultServer } from "../../harness/vault-server.ts";
import { type Certificate, makeCertificate } from "../../server/wire/certificate.ts";
import { atVault, isWrite, mark, neededPolicy, nth, writer } from "./vault-writing.ts";
import { entryOf, failureOf, linkId, never, otherLinkId, targetErrorOf } from "./writing.ts";

const certificate = makeCertificate();
after(() => certificate?.remove());
if (certificate === undefined) console.log("links to Vault over TLS are not tested: this machine has no openssl");

describe("Links to Vault, in trouble", () => {
  let vault: VaultServer;
  beforeEach(async () => {
    vault = await new VaultServer().start();
  });
  afterEach(() => vault.stop());
  const { site, write, fields, custom, put, patch, annotate, deleteData, deleteAll } = atVault(() => vault);

  describe("crashes", () => {
    const starts: [string, () => void][] = [
      ["a free path", () => {}],
      [
        "a secret of others",
        () => {
          put({ theirs: 1 });
          annotate({ owner: "payments" });
        },
      ],
      [
        "a deleted secret of others",
        () => {
          put({ theirs: 1 });
          deleteData();
        },
      ],
    ];
    const requestsOfAWrite = 6;

    /** Ends the process, so to say, at a request that is done, or is not. */
    const crashAt = async (count: number, done: boolean) => {
      const controller = new AbortController();
      vault.behave = nth(count, () => {
        setImmediate(() => controller.abort(new Error("crash")));
        return hangs({ done });
      });
      const error = await writer.write(entryOf({ value: "v1" }), site(), controller.signal).catch((reason) => reason);
      vault.behave = () => undefined;
      return error as Error | undefined;
    };

    for (const [where, prepare] of starts) {
      for (const done of [false, true]) {
        const when = done ? "after" : "before";

        it(`at ${where} ${when} each request leave what the next write ends well`, async () => {
          for (let count = 0; count < requestsOfAWrite; count += 1) {
            deleteAll();
            prepare();
            const [before, metadata] = [fields() ?? {}, custom() ?? {}];
            await crashAt(count, done);

            await write({ version: 2, value: "v2" });

            expect(fields()).to.deep.equal({ ...before, value: "v2" });
            expect(custom()).to.include({ ...metadata, [mark]: linkId });
          }
        });

        it(`at ${where} ${when} each request adopt nothing that somebody makes afterwards`, async () => {
          for (let count = 0; count < requestsOfAWrite; count += 1) {
            deleteAll();
            prepare();
            await crashAt(count, done);
            if (fields()?.["value"] !== undefined) continue;
            put({ ...fields(), value: "theirs" });
            const before = fields();

            const error = await targetErrorOf(write({ version: 2, value: "v2" }));

            expect(error.code).to.equal("foreign");
            expect(fields()).to.deep.equal(before);
          }
        });
      }
    }

    it("leave a claim that only those can prove who have the same credentials", async () => {
      const [role, other] = [vault.role(neededPolicy), vault.role(neededPolicy)];
      const tokens = [{ token: vault.rootToken }, { token: vault.token(neededPolicy) }];
      for (const [ours, others] of [tokens, [role, other]] as [JsonObject, JsonObject][]) {
        deleteAll();
        vault.behave = ({ method }) => (method === "PATCH" ? breaksOff({ done: false }) : undefined);
        await targetErrorOf(write({ value: "v1" }, site({}, ours)));
        vault.behave = () => undefined;

        expect((await targetErrorOf(write({ value: "v2" }, site({}, others)))).code).to.equal("foreign");
        await write({ value: "v2" }, site({}, ours));

        expect(fields()).to.deep.equal({ value: "v2" });
      }
    });

    it("are as many as there are requests", async () => {
      expect((await crashAt(requestsOfAWrite - 1, false))?.message).to.equal("crash");
      deleteAll();
      expect(await crashAt(requestsOfAWrite, false)).to.equal(undefined);
    });
  });

  describe("what goes wrong", () => {
    const denied: [string, Record<string, string[]>, string][] = [
      ["read", { "secret/data/app/db": ["update"] }, "read at secret/data/app/db"],
      ["read metadata", { "secret/data/app/db": ["read"] }, "read at secret/metadata/app/db"],
      [
        "make metadata",
        { ...neededPolicy, "secret/metadata/app/db": ["read"] },
        "create and update at secret/metadata/app/db",
      ],
      ["write", { ...neededPolicy, "secret/data/app/db": ["read"] }, "create and update at secret/data/app/db"],
    ];
    for (const [what, policy, says] of denied) {
      it(`is said of a token that may not ${what}`, async () => {
        const error = await targetErrorOf(write({}, site({}, { token: vault.token(policy) })));

        expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
        expect(error.message).to.equal(
          `Vault answered 403: the token is not valid, or its policies do not allow it to ${says}`,
        );
      });
    }

    it("is said of a token that may not patch", async () => {
      put({ theirs: 1 });
      const policy = { ...neededPolicy, "secret/data/app/db": ["read", "create", "update"] };

      const error = await targetErrorOf(write({}, site({}, { token: vault.token(policy) })));

      expect(error.message).to.include("do not allow it to patch at secret/data/app/db");
      expect(fields()).to.deep.equal({ theirs: 1 });
    });

    it("is said of a token that Vault does not know", async () => {
      const error = await targetErrorOf(write({}, site({}, { token: "hvs.unknown" })));

      expect(error.message).to.include("Vault answered 403: the token is not valid");
    });

    it("is said of a mount or a namespace that is not there", async () => {
      for (const config of [{ mount: "kw" }, { namespace: "elsewhere" }]) {
        const error = await targetErrorOf(write({}, site(config)));

        expect(error.message).to.match(/^Vault answered 404: it has no secrets engine for \w+\/data\/app\/db/);
      }
    });

    it("is said of a Vault that is sealed", async () => {
      vault.isSealed = true;

      const error = await targetErrorOf(write());

      expect(error).to.include({ code: "refused", permanent: false });
      expect(error.message).to.equal("Vault answered 503: it is sealed, or down for maintenance");
    });

    it("is said of a standby node, which is not followed", async () => {
      const active = await new VaultServer().start();
      vault.activeNode = `${active.url}/v1/secret/data/app/db`;

      const error = await targetErrorOf(write());

      expect(error.message).to.include("Vault answered 307").and.include("active node");
      expect(active.received).to.deep.equal([]);
      await active.stop();
    });

    const statuses: [number, string][] = [
      [400, "does not take the request"],
      [405, "Vault answered 405"],
      [412, "has not yet all"],
      [429, "too often"],
      [472, "disaster recovery"],
      [473, "standby"],
      [500, "Vault answered 500"],
      [502, "Vault answered 502"],
    ];
    for (const [status, says] of statuses) {
      it(`is said of the status ${status}`, async () => {
        vault.behave = () => answers(status, '{"errors":["something about correct horse"]}');

        const error = await targetErrorOf(write());

        expect(error.code).to.equal("refused");
        expect(error.message).to.include(says).and.not.include("horse");
      });
    }

    it("is tried again no sooner than Vault asks for", async () => {
      vault.behave = () => answers(429, '{"errors":["rate limit quota exceeded"]}', { "retry-after": "17" });

      const error = await targetErrorOf(write());

      expect(error).to.include({ permanent: false, retryAfterMs: 17_000 });
    });

    it("is tried again also where custom metadata has no room left", async () => {
      put({ theirs: 1 });
      vault.behave = ({ method }) =>
        method === "PATCH" ? answers(400, '{"errors":["custom_metadata validation failed"]}') : undefined;

      const error = await targetErrorOf(write());

      expect(error.message).to.equal(
        "Vault answered 400: it does not take the request to PATCH secret/metadata/app/db",
      );
    });

    const deep = `{"data":${"[".repeat(200_000)}${"]".repeat(200_000)}}`;
    const troubles: [string, () => Trouble, string][] = [
      ["nothing that is understood", () => answersGarbage, "invalid"],
      ["more than is read", () => answersTooMuch, "invalid"],
      ["without end", () => answersForever, "invalid"],
      ["half of it", () => cutsShort, "unreachable"],
      ["not at all", () => breaksOff({ done: false }), "unreachable"],
      ["arrays in arrays", () => answers(200, deep), "invalid"],
      ["404 as any web server", () => answers(404, "<html>not found</html>"), "invalid"],
      ["an empty success", () => answers(204), "invalid"],
      [
        "another version than is written",
        () => answers(200, '{"data":{"data":{},"metadata":{"version":-1}}}'),
        "invalid",
      ],
      ["with the way to an address within", () => redirectsTo("http://169.254.169.254/latest"), "refused"],
    ];
    for (const [what, trouble, code] of troubles) {
      it(`ends the attempt when Vault answers ${what}, at whichever request`, async () => {
        put({ theirs: 1 });
        for (let count = 0; count < 4; count += 1) {
          annotate({ [mark]: null });
          vault.behave = nth(count, trouble);

          // What makes the last mark final needs no body of an answer.
          const error = await writer.write(entryOf(), site(), never).then(
            () => undefined,
            (reason) => reason,
          );
          if (count === 0) expect(error?.code).to.equal(code);

          vault.behave = () => undefined;
          expect(fields()).to.include({ theirs: 1 });
          patch({ value: null });
        }
      });
    }

    it("is no success where a write is not confirmed", async () => {
      put({ theirs: 1 });
      for (const answer of [answers(204), answers(200, '{"data":{"version":7}}'), answers(200, "{}")]) {
        vault.behave = (request) => (isWrite(request) ? answer : undefined);

        expect((await targetErrorOf(write())).code).to.equal("invalid");
      }
    });

    it("ends soon when it is aborted, with the reason", async () => {
      const controller = new AbortController();
      vault.behave = () => {
        setImmediate(() => controller.abort(new Error("the claim is over")));
        return hangs({ done: false });
      };

      const error = (await failureOf(write({}, site(), controller.signal))) as Error;

      expect(error.message).to.equal("the claim is over");
    });

    it("never shows a value, a token or a secret_id", async () => {
      const [value, token] = ["the-value-of-all-values", "hvs.the-token-of-all-tokens"];
      const role = { role_id: "the-role", secret_id: "the-secret-id-of-all" };
      const echo = JSON.stringify({ errors: [`${value} ${token} ${role.secret_id}`], data: value });
      for (const status of [200, 307, 400, 403, 404, 429, 500, 503]) {
        vault.behave = () => answers(status, echo);
        for (const credentials of [{ token }, role]) {
          const error = await targetErrorOf(write({ value }, site({}, credentials)));

          expect(inspect(error, { depth: 9 })).not.to.match(/of-all/);
        }
      }
    });
  });

  const overTls = certificate === undefined ? it.skip : it;
  overTls("trust the authorities that they are told, and no others", async () => {
    const tls = await new VaultServer({ tls: certificate as Certificate }).start();
    const at = (config: JsonObject) => site({ address: tls.url, ...config }, { token: tls.rootToken });

    await write({ value: "v1" }, at({ ca_certificate_pem: String(certificate?.cert) }));

    expect(tls.fieldsAt("secret/data/app/db")).to.deep.equal({ value: "v1" });
    expect((await targetErrorOf(write({}, at({})))).code).to.equal("unreachable");
    await tls.stop();
  });

  it("leave what is others' as it is, whatever they and others do, and whenever they crash", async () => {
    const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Date.now() % 1_000_000);
    for (let round = 0; round < 8; round += 1) await playAtRandom(seed + round);
  });

  /** Lets two links and others use two secrets, and says what is not as it should be. */
  async function playAtRandom(seed: number): Promise<void> {
    const random = randomFrom(seed);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
    const links = [
      { linkId, field: "one" },
      { linkId: otherLinkId, field: "two" },
    ];
    const values = [1e21, 0.1, 1.7976931348623157e308, null, "", "ä", [1, { a: null }], { deep: { er: [true] } }];
    /** What somebody else puts into a field that a link would have; links write other values. */
    const taken = "taken";
    const path = () => pick(["a", "b/c"]);
    const data = (at: string) => vault.fieldsAt(`secret/data/${at}`);
    const metadata = (at: string) => vault.metadataAt(`secret/metadata/${at}`);
    /** All that is not the link's. */
    const theirs = (at: string, field: string) => {
      const { [field]: _, ...fields } = data(at) ?? {};
      const { [`holdfast:${field}`]: __, "managed-by": ___, ...notes } = metadata(at) ?? {};
      return JSON.stringify([fields, notes]);
    };

    const ours = async () => {
      const [{ linkId, field }, at, value] = [pick(links), path(), `v${random()}`];
      const [before, previous, note] = [theirs(at, field), data(at)?.[field], metadata(at)?.[`holdfast:${field}`]];
      const [isRemoval, crash] = [random() < 0.2, random() < 0.4];
      vault.behave = crash ? nth(Math.floor(random() * 7), () => breaksOff({ done: random() < 0.5 })) : () => undefined;
      const entry = entryOf({ linkId, value });
      const where = site({ path: at, field });
      const work = isRemoval ? writer.remove(entry, where, never) : writer.write(entry, where, never);
      const error = await work.then(
        () => undefined,
        (reason: { code: string }) => reason,
      );
      vault.behave = () => undefined;
      const said = `seed ${seed}: ${isRemoval ? "remove" : "write"} ${at} ${field} ${error?.code}`;
      expect(theirs(at, field), said).to.equal(before);
      // What came back after its mark was taken away or replaced is nobody's any more.
      const isForeign = previous === taken || (previous !== undefined && note !== linkId && error?.code === "foreign");
      if (isForeign) expect(data(at)?.[field], said).to.equal(previous);
      if (crash) return;
      expect(error?.code, said).to.equal(isForeign ? "foreign" : undefined);
      if (!isForeign) expect(data(at)?.[field], said).to.equal(isRemoval ? undefined : value);
    };
    const others = () => {
      const at = path();
      const at2 = `secret/data/${at}`;
      switch (pick(["put", "field", "note", "delete", "undelete", "remove", "take"])) {
        case "put":
          // As those write who know of nobody else's fields: they take theirs along.
          return vault.ask("POST", at2, { data: { ...data(at), [pick(["x", "y", "z"])]: pick(values) } });
        case "field":
          return vault.ask("PATCH", at2, { data: { [pick(["x", "y", "z"])]: pick(values) } });
        case "note":
          return vault.ask("PATCH", `secret/metadata/${at}`, { custom_metadata: { owner: `${random()}` } });
        case "delete":
          return vault.ask("DELETE", at2);
        case "undelete":
          return undelete(at);
        case "remove":
          return vault.ask("DELETE", `secret/metadata/${at}`);
        default:
          return take(at);
      }
    };
    /** Brings back the newest data. */
    const undelete = (at: string) => {
      const { status, body } = vault.ask("GET", `secret/metadata/${at}`);
      if (status !== 200) return;
      const { current_version: version } = (body as { data: { current_version: number } }).data;
      vault.ask("POST", `secret/undelete/${at}`, { versions: [version] });
    };
    /** Makes a field that a link would have, where there never was a mark of it. */
    const take = (at: string) => {
      const { field } = pick(links);
      if (data(at)?.[field] !== undefined || metadata(at)?.[`holdfast:${field}`] !== undefined) return;
      if (data(at) === undefined && metadata(at) !== undefined) return;
      vault.ask("POST", `secret/data/${at}`, { data: { ...data(at), [field]: taken } });
    };

    for (let step = 0; step < 60; step += 1) {
      if (random() < 0.5) await ours();
      else others();
    }
    for (const at of ["a", "b/c"]) vault.ask("DELETE", `secret/metadata/${at}`);
  }
});
