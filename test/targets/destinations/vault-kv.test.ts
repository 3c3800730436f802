import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Destination } from "../../../src/targets/destinations/destination.ts";
import { vaultKv } from "../../../src/targets/destinations/vault-kv.ts";
import type { Received } from "../../harness/target-server.ts";
import { answers, breaksOff } from "../../harness/trouble.ts";
import { VaultServer } from "../../harness/vault-server.ts";
import { atVault, checkedConfig, isWrite, mark, neededPolicy, nth } from "./vault-writing.ts";
import { linkId, otherLinkId, targetErrorOf } from "./writing.ts";

const faultsOf: NonNullable<Destination["faults"]> = (given) => vaultKv.faults?.(given) ?? [];

describe("The configuration of links to Vault", () => {
  const config = { address: "https://vault.example.com:8200", path: "app/db" };

  it("says the mount, the field and the version that are usual", () => {
    expect(checkedConfig(config)).to.deep.equal({ ...config, mount: "secret", field: "value", kv_version: 2 });
    expect(checkedConfig({ ...config, mount: null, field: null, kv_version: null })).to.deep.equal(
      checkedConfig(config),
    );
  });

  it("is the same place however it is written", () => {
    const written = {
      address: "HTTPS://Vault.Example.com:443/vault//",
      path: "/app/db/",
      mount: "teams/kv/",
      field: "f",
    };

    const { origin, name } = vaultKv.place(checkedConfig({ ...written, namespace: "/ns1/" }));

    expect(origin).to.equal("https://vault.example.com");
    const same = { address: "https://vault.example.com/vault", path: "app/db", mount: "teams/kv", field: "f" };
    expect(name).to.equal(vaultKv.place(checkedConfig({ ...same, namespace: "ns1" })).name);
  });

  const others = [{ path: "app/other" }, { mount: "kv" }, { field: "f" }, { namespace: "n" }, { address: "https://v" }];
  for (const other of others) {
    it(`is another place with another ${Object.keys(other)[0]}`, () => {
      const name = vaultKv.place(checkedConfig({ ...config, ...other })).name;

      expect(name).not.to.equal(vaultKv.place(checkedConfig(config)).name);
    });
  }

  const refused: [string, JsonObject][] = [
    ["no path", { path: "" }],
    ["slashes only", { path: "//" }],
    ["an empty name in the path", { path: "app//db" }],
    ["a way out of the path", { path: "app/../../sys" }],
    ["a dot as a name", { mount: "." }],
    ["control characters", { path: "app/\u0007" }],
    ["a name that ends with a blank", { path: "app/db " }],
    ["a path of 513 characters", { path: "a".repeat(513) }],
    ["an address of another protocol", { address: "ftp://vault.example.com" }],
    ["an address with a user", { address: "https://root:pw@vault.example.com" }],
    ["an address with a query", { address: "https://vault.example.com/?a=b" }],
    ["no address at all", { address: "vault" }],
    ["a field that is no mark's name", { field: "ä" }],
    ["a field of 101 characters", { field: "f".repeat(101) }],
    ["a namespace that no header can hold", { namespace: "ü" }],
    ["version 3", { kv_version: 3 }],
    [
      "a certificate that is none",
      { ca_certificate_pem: "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----" },
    ],
    ["what it does not know", { pth: "app" }],
  ];
  for (const [what, changes] of refused) {
    it(`refuses ${what}`, () => {
      expect(vaultKv.config("k").safeParse({ ...config, ...changes }).success).to.equal(false);
    });
  }

  it("takes a token, or a role with its secret, and nothing between", () => {
    const [token, role] = [{ token: "t" }, { role_id: "r", secret_id: "s" }];

    expect(faultsOf(token)).to.deep.equal([]);
    expect(faultsOf(role)).to.deep.equal([]);
    expect(faultsOf({}).map(({ field }) => field)).to.deep.equal(["token"]);
    expect(faultsOf({ role_id: "r" })).to.deep.equal([{ field: "secret_id", message: "is required" }]);
    expect(faultsOf({ secret_id: "s" })).to.deep.equal([{ field: "role_id", message: "is required" }]);
    expect(faultsOf({ ...token, ...role }).map(({ field }) => field)).to.deep.equal(["token"]);
  });
});

describe("Links to Vault", () => {
  let vault: VaultServer;
  beforeEach(async () => {
    vault = await new VaultServer().start();
  });
  afterEach(() => vault.stop());
  const { site, write, remove, fields, custom, versions, put, patch, annotate, deleteData, deleteAll } = atVault(
    () => vault,
  );

  /** Once, when the first request that fits comes in. */
  const onceAt = (fits: (request: Received) => boolean, then: () => void) => {
    let isOver = false;
    vault.behave = (request) => {
      if (isOver || !fits(request)) return undefined;
      isOver = true;
      then();
      return undefined;
    };
  };

  describe("write", () => {
    it("makes a secret that says who made it, by a token that may do no more than is documented", async () => {
      await write({ value: "v1" }, site({}, { token: vault.token(neededPolicy) }));

      expect(fields()).to.deep.equal({ value: "v1" });
      expect(custom()).to.deep.equal({ "managed-by": "holdfast", [mark]: linkId });
    });

    it("adds its field to a secret of others, whose fields stay as they are", async () => {
      const theirs = { n: 1e21, f: 0.1, big: 9007199254740991, deep: { a: [null, { b: "ä\u2028" }] }, none: null };
      put(theirs);
      annotate({ owner: "payments" });
      const before = JSON.stringify(fields());

      await write({ value: "v1" }, site({}, { token: vault.token(neededPolicy) }));

      const { value, ...others } = fields() ?? {};
      expect(value).to.equal("v1");
      expect(JSON.stringify(others)).to.equal(before);
      expect(custom()).to.deep.equal({ owner: "payments", [mark]: linkId });
    });

    it("sends nothing of what others keep there", async () => {
      put({ theirs: "very secret" });

      await write();

      expect(vault.received.map(({ body }) => body).join()).not.to.include("very secret");
    });

    it("puts new values into the field that it made", async () => {
      await write({ value: "v1" });
      patch({ theirs: 1 });

      await write({ version: 2, value: "v2" });

      expect(fields()).to.deep.equal({ theirs: 1, value: "v2" });
    });

    it("makes no version at Vault for a value that is there", async () => {
      await write({ value: "v1" });
      const before = versions();

      await write({ value: "v1" });

      expect(versions()).to.equal(before);
    });

    it("puts back what somebody changed in its field, or took away", async () => {
      await write({ value: "v1" });
      for (const change of [{ value: "by hand" }, { value: { an: "object" } }, { value: null }]) {
        patch(change);

        await write({ value: "v1" });

        expect(fields()).to.deep.equal({ value: "v1" });
      }
    });

    it("writes values of 64 KiB, with whatever characters they have, and empty ones", async () => {
      for (const value of ["a".repeat(65_536), 'ä\u{1f511}\n\t\u0001"\\', "\u{2028}", ""]) {
        await write({ value });

        expect(fields()).to.deep.equal({ value });
      }
    });

    it("writes to fields that are named as what every object has", async () => {
      for (const field of ["constructor", "__proto__"]) {
        deleteAll();

        await write({ value: "v1" }, site({ field }));

        expect(Object.entries(fields() ?? {})).to.deep.equal([[field, "v1"]]);
      }
    });

    it("keeps two links apart that have fields of one secret", async () => {
      await write({ value: "one" }, site({ field: "one" }));
      await write({ value: "two", linkId: otherLinkId }, site({ field: "two" }));

      expect(fields()).to.deep.equal({ one: "one", two: "two" });
      expect(custom()).to.include({ "holdfast:one": linkId, "holdfast:two": otherLinkId });
    });

    const foreign: [string, () => void][] = [
      ["somebody else made", () => put({ value: "theirs" })],
      ["somebody else made, null", () => put({ value: null })],
      [
        "another link made",
        () => {
          put({ value: "theirs" });
          annotate({ [mark]: otherLinkId });
        },
      ],
      [
        "this link has claimed only, with another value",
        () => {
          put({ value: "theirs" });
          annotate({ [mark]: `${linkId} ${"A".repeat(43)}` });
        },
      ],
    ];
    for (const [what, prepare] of foreign) {
      it(`leaves a field alone that ${what}`, async () => {
        prepare();
        const before = versions();

        const error = await targetErrorOf(write({ value: "ours" }));

        expect(error).to.include({ code: "foreign", permanent: true, unchanged: true });
        expect(error.message).to.include("secret/app/db").and.include("value");
        expect(versions()).to.equal(before);
      });
    }

    const gone: [string, () => void][] = [
      ["deleted", () => deleteData()],
      ["destroyed", () => vault.ask("POST", "secret/destroy/app/db", { versions: [1] })],
      ["removed with all versions", () => deleteAll()],
    ];
    for (const [what, change] of gone) {
      it(`writes anew what somebody has ${what}`, async () => {
        await write({ value: "v1" });
        change();

        await write({ value: "v2" });

        expect(fields()).to.deep.equal({ value: "v2" });
        expect(custom()).to.include({ [mark]: linkId });
      });
    }

    it("writes to a secret of others whose data are deleted, and leaves their metadata", async () => {
      put({ theirs: 1 });
      annotate({ owner: "payments" });
      deleteData();

      await write({ value: "v1" });

      expect(fields()).to.deep.equal({ value: "v1" });
      expect(custom()).to.deep.equal({ owner: "payments", [mark]: linkId });
    });

    it("makes its field where somebody annotated a secret without data", async () => {
      vault.ask("POST", "secret/metadata/app/db", { custom_metadata: { owner: "payments" } });

      await write({ value: "v1" });

      expect(fields()).to.deep.equal({ value: "v1" });
      expect(custom()).to.deep.equal({ owner: "payments", [mark]: linkId });
    });

    it("loses nothing that somebody writes at the same time", async () => {
      put({ theirs: 1 });
      onceAt(isWrite, () => put({ theirs: 2, more: 3 }));

      await write({ value: "v1" });

      expect(fields()).to.deep.equal({ theirs: 2, more: 3, value: "v1" });
    });

    it("loses nothing that somebody writes at the same time where there was nothing", async () => {
      onceAt(isWrite, () => put({ theirs: 1 }));

      await write({ value: "v1" });

      expect(fields()).to.deep.equal({ theirs: 1, value: "v1" });
    });

    it("leaves a field alone that somebody makes at the same time", async () => {
      put({ theirs: 1 });
      onceAt(isWrite, () => put({ theirs: 1, value: "theirs too" }));

      const error = await targetErrorOf(write({ value: "ours" }));

      expect(error.code).to.equal("foreign");
      expect(fields()).to.deep.equal({ theirs: 1, value: "theirs too" });
    });

    it("writes when somebody deletes the secret at the same time", async () => {
      put({ theirs: 1 });
      onceAt(isWrite, () => deleteData());

      await write({ value: "v1" });

      expect(fields()).to.deep.equal({ value: "v1" });
    });

    it("gives up against somebody who writes without end", async () => {
      put({ theirs: 1 });
      vault.behave = (request) => {
        if (isWrite(request)) put({ theirs: 1 });
        return undefined;
      };

      const error = await targetErrorOf(write());

      expect(error).to.include({ code: "refused", permanent: false });
      expect(fields()).to.deep.equal({ theirs: 1 });
    });

    it("makes no metadata at OpenBao over those that somebody makes at the same time", async () => {
      const bao = await new VaultServer({ product: "openbao" }).start();
      const path = "secret/metadata/app/db";
      bao.behave = ({ method, path: asked }) => {
        if (method === "POST" && asked.endsWith(path)) bao.ask("PATCH", path, { custom_metadata: { owner: "them" } });
        if (method === "GET" && asked.endsWith(path))
          setImmediate(() => bao.ask("POST", path, { custom_metadata: { owner: "them" } }));
        return undefined;
      };

      await write({ value: "v1" }, site({ address: bao.url }, { token: bao.rootToken }));

      expect(bao.metadataAt(path)).to.deep.equal({ owner: "them", [mark]: linkId });
      await bao.stop();
    });

    it("writes below mounts with slashes, in namespaces, behind a path, and names with all characters", async () => {
      vault.mount("teams/payments/kv", 2, "org/team");
      const config = {
        mount: "teams/payments/kv",
        namespace: "org/team",
        path: "a b/ü%2F?#&+/c",
        address: `${vault.url}/vault/`,
      };

      await write({ value: "v1" }, site(config));

      expect(vault.fieldsAt("teams/payments/kv/data/a b/ü%2F?#&+/c", "org/team")).to.deep.equal({ value: "v1" });
      expect(vault.requests).to.include("POST /vault/v1/teams/payments/kv/data/a b/ü%2F?#&+/c");
      expect(vault.received.map(({ headers }) => headers["x-vault-namespace"])).to.satisfy((all: string[]) =>
        all.every((each) => each === "org/team"),
      );
    });

    it("says who asks", async () => {
      await write();

      for (const { headers } of vault.received) {
        expect(headers).to.include({ "x-vault-request": "true", "x-vault-token": vault.rootToken });
        expect(headers["user-agent"]).to.match(/^holdfast\/\d/);
      }
    });
  });

  describe("a role", () => {
    it("logs in for each write, and leaves no token behind", async () => {
      const role = vault.role({ ...neededPolicy, "auth/token/revoke-self": ["update"] });

      await write({ value: "v1" }, site({}, role));

      expect(fields()).to.deep.equal({ value: "v1" });
      expect(vault.liveTokens).to.equal(0);
    });

    it("leaves no token behind either when the write fails", async () => {
      put({ value: "theirs" });

      const error = await targetErrorOf(write({}, site({}, vault.role(neededPolicy))));

      expect(error.code).to.equal("foreign");
      expect(vault.liveTokens).to.equal(0);
    });

    it("has written also where its token cannot be revoked", async () => {
      vault.behave = ({ path }) => (path.endsWith("revoke-self") ? breaksOff({ done: false }) : undefined);

      await write({ value: "v1" }, site({}, vault.role(neededPolicy)));

      expect(fields()).to.deep.equal({ value: "v1" });
    });

    it("is refused without being told back what it logged in with", async () => {
      const error = await targetErrorOf(write({}, site({}, { role_id: "no-role", secret_id: "no-secret-of-any" })));

      expect(error).to.include({ code: "refused", permanent: true });
      expect(error.message).to.equal("Vault answered 400: the role_id or the secret_id is not accepted");
    });
  });

  describe("remove", () => {
    it("removes a secret that it made and that holds nothing else, with all versions", async () => {
      await write({ value: "v1" });
      await write({ value: "v2" });

      await remove({}, site({}, { token: vault.token(neededPolicy) }));

      expect(vault.ask("GET", "secret/metadata/app/db").status).to.equal(404);
    });

    it("takes no more than its field from a secret of others", async () => {
      put({ theirs: 1 });
      annotate({ owner: "payments" });
      await write();

      await remove({}, site({}, { token: vault.token(neededPolicy) }));

      expect(fields()).to.deep.equal({ theirs: 1 });
      expect(custom()).to.deep.equal({ owner: "payments" });
    });

    it("leaves a secret that others made, also when nothing else is there any more", async () => {
      put({ theirs: 1 });
      await write();
      patch({ theirs: null });

      await remove();

      expect(fields()).to.deep.equal({});
      vault.ask("POST", "secret/data/app/db", { options: { cas: 4 }, data: { theirs: 2 } });
      expect(fields()).to.deep.equal({ theirs: 2 });
    });

    it("takes no more than its field from a secret that it made and others use", async () => {
      await write();
      patch({ theirs: 1 });
      annotate({ "managed-by": "terraform" });

      await remove();

      expect(fields()).to.deep.equal({ theirs: 1 });
      expect(custom()).to.deep.equal({ "managed-by": "terraform" });
    });

    it("leaves a secret that it made to the other link that has a field there, which removes it at last", async () => {
      await write({}, site({ field: "one" }));
      await write({ linkId: otherLinkId }, site({ field: "two" }));

      await remove({}, site({ field: "one" }));

      expect(Object.keys(fields() ?? {})).to.deep.equal(["two"]);
      expect(custom()).to.deep.equal({ "managed-by": "holdfast", "holdfast:two": otherLinkId });
      await remove({ linkId: otherLinkId }, site({ field: "two" }));
      expect(custom()).to.equal(undefined);
    });

    it("is done where there is nothing", async () => {
      await remove();
      put({ theirs: 1 });
      const before = versions();

      await remove();

      expect(versions()).to.equal(before);
    });

    it("takes its mark from a secret whose data are deleted, and leaves what can be restored", async () => {
      for (const isOurs of [false, true]) {
        deleteAll();
        if (!isOurs) put({ theirs: 1 });
        await write();
        patch({ theirs: 1 });
        deleteData();

        await remove();

        expect(custom()).to.deep.equal({});
        vault.ask("POST", "secret/undelete/app/db", { versions: [isOurs ? 2 : 3] });
        expect(fields()).to.include({ theirs: 1 });
      }
    });

    it("takes away a claim to what was never made", async () => {
      for (const prepare of [() => {}, () => put({ theirs: 1 })]) {
        deleteAll();
        prepare();
        const before = custom();
        vault.behave = (request) => (isWrite(request) ? breaksOff({ done: false }) : undefined);
        await targetErrorOf(write());
        expect(custom()?.[mark]).to.match(new RegExp(`^${linkId} [\\w-]{43}$`));

        await remove();

        expect(custom() ?? {}).to.deep.equal(before ?? {});
      }
    });

    it("leaves a field alone that it did not make", async () => {
      put({ value: "theirs" });
      const before = versions();

      const error = await targetErrorOf(remove());

      expect(error.code).to.equal("foreign");
      expect(versions()).to.equal(before);
    });

    it("loses nothing that somebody writes at the same time", async () => {
      put({ theirs: 1 });
      await write();
      onceAt(isWrite, () => patch({ theirs: 2 }));

      await remove();

      expect(fields()).to.deep.equal({ theirs: 2 });
    });

    it("does not say that nothing was changed when only its mark is left", async () => {
      put({ theirs: 1 });
      await write();
      vault.behave = ({ path, method }) =>
        method === "PATCH" && path.includes("/metadata/")
          ? answers(403, '{"errors":["permission denied"]}')
          : undefined;

      const error = await targetErrorOf(remove());

      expect(error).to.include({ code: "refused", unchanged: false });
      expect(fields()).to.deep.equal({ theirs: 1 });
    });

    it("ends well after a crash before or after each request", async () => {
      for (const done of [false, true]) {
        for (let count = 0; count < 4; count += 1) {
          deleteAll();
          put({ theirs: 1 });
          await write();
          vault.behave = nth(count, () => breaksOff({ done }));
          await remove().catch(() => {});
          vault.behave = () => undefined;

          await remove();

          expect(fields()).to.deep.equal({ theirs: 1 });
          expect(custom()).to.deep.equal({});
        }
      }
    });
  });
});
