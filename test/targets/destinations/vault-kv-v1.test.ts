import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Site } from "../../../src/targets/destinations/destination.ts";
import { breaksOff } from "../../harness/trouble.ts";
import { VaultServer } from "../../harness/vault-server.ts";
import { atVault } from "./vault-writing.ts";
import { targetErrorOf } from "./writing.ts";

describe("Links to KV version 1 of Vault", () => {
  let vault: VaultServer;
  beforeEach(async () => {
    vault = await new VaultServer().start();
  });
  afterEach(() => vault.stop());
  const { site, write, remove } = atVault(() => vault);
  beforeEach(() => vault.mount("kv", 1));

  /** A link whose row keeps that the entry is its own. */
  const v1 = (config: JsonObject = {}) => {
    const kept = { isOwned: false };
    const at = (): Site => ({
      ...site({ mount: "kv", kv_version: 1, ...config }),
      owned: kept.isOwned,
      own: async () => {
        kept.isOwned = true;
      },
    });
    return { kept, write: (value: string) => write({ value }, at()), remove: () => remove({}, at()) };
  };
  const there = () => (vault.ask("GET", "kv/app/db").body as { data?: object }).data;

  it("makes a secret where there is none, and then keeps it up to date", async () => {
    const link = v1();

    await link.write("v1");
    await link.write("v2");

    expect(there()).to.deep.equal({ value: "v2" });
    expect(link.kept.isOwned).to.equal(true);
  });

  it("notes that it is about to make it before it does", async () => {
    const link = v1();
    vault.behave = ({ method }) => (method === "POST" ? breaksOff({ done: true }) : undefined);
    await targetErrorOf(link.write("v1"));
    vault.behave = () => undefined;

    await link.write("v2");

    expect(there()).to.deep.equal({ value: "v2" });
  });

  it("leaves a secret alone that it did not make", async () => {
    vault.ask("POST", "kv/app/db", { value: "theirs" });
    const link = v1();

    for (const work of [link.write("ours"), link.remove()]) {
      expect((await targetErrorOf(work)).code).to.equal("foreign");
    }

    expect(there()).to.deep.equal({ value: "theirs" });
    expect(link.kept.isOwned).to.equal(false);
  });

  it("leaves a secret alone to which others have added something", async () => {
    const link = v1();
    await link.write("v1");
    vault.ask("POST", "kv/app/db", { value: "v1", theirs: 1 });

    for (const work of [link.write("v2"), link.remove()]) {
      expect((await targetErrorOf(work)).code).to.equal("foreign");
    }

    expect(there()).to.deep.equal({ value: "v1", theirs: 1 });
  });

  it("removes what it made, and is done where there is nothing", async () => {
    const link = v1();
    await link.write("v1");

    await link.remove();
    await link.remove();

    expect(there()).to.equal(undefined);
  });

  it("needs to be said: an engine of version 2 takes nothing that is meant for it", async () => {
    const error = await targetErrorOf(v1({ mount: "secret" }).write("v1"));

    expect(error).to.include({ code: "refused", permanent: true });
    expect(error.message).to.equal(
      "the secrets engine secret of Vault has the version 2, not 1; kv_version says which",
    );
  });

  it("is not what else Vault has at paths: nothing is made there", async () => {
    vault.mountOther("auth/approle/role", "approle");

    const error = await targetErrorOf(v1({ mount: "auth/approle/role" }).write("v1"));

    expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
    expect(error.message).to.equal("auth/approle/role of Vault is no secrets engine KV");
    expect(vault.ask("GET", "auth/approle/role/app/db").status).to.equal(404);
  });

  it("is not written to as if it were version 2", async () => {
    const error = await targetErrorOf(write({}, site({ mount: "kv" })));

    expect(error.message).to.equal("the secrets engine kv of Vault has the version 1, not 2; kv_version says which");
    expect(vault.requests.filter((each) => !each.startsWith("GET"))).to.deep.equal([]);
  });
});
