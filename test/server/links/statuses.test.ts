import { expect } from "chai";
import type { Core } from "../../../src/server/context.ts";
import { claimDue, type DueLink } from "../../../src/server/links/claims.ts";
import { noteConfirmed, noteFailed } from "../../../src/server/links/outcomes.ts";
import { TargetError } from "../../../src/targets/target-error.ts";
import type { Receiver } from "../../harness/receiver.ts";
import { useServer } from "../../harness/server.ts";
import { answers } from "../../harness/trouble.ts";
import { type LinkRecord, Links, toWebhook } from "./links.ts";

const server = useServer();
const links = new Links(server);

type State = "pending" | "syncing" | "synced" | "failed" | "disabled";

/** A link in a state, with no worker about but the one that writes it, and the place that it leads to. */
interface Found {
  readonly link: LinkRecord;
  readonly place: Receiver;
  /** Ends what holds the state. */
  readonly release: () => Promise<void>;
}

async function linkThatIs(state: State): Promise<Found> {
  const place = await links.receiver();
  const fields = state === "disabled" ? { sync_enabled: false } : {};
  if (state === "pending" || state === "disabled")
    return { link: await links.of(toWebhook(place.url(), fields)), place, release: async () => {} };
  const worker = links.work(50);
  const { promise: released, resolve } = Promise.withResolvers<undefined>();
  place.behave(() => (state === "syncing" ? released : state === "failed" ? answers(500) : undefined));
  const link = await links.of(toWebhook(place.url()));
  const found = await links.once(link, state, ({ status }) => status === state);
  if (state !== "syncing") await worker.stop();
  const release = async () => {
    resolve(undefined);
    await worker.stop();
  };
  return { link: found, place, release };
}

const statusOf = async (link: LinkRecord) => (await links.get(link)).status;

/** In the table, as nobody is told of links of secrets that are not active. */
async function keptStatusOf({ id }: LinkRecord): Promise<string> {
  const [{ status }] = await server.sql("select status from secret_link where id = $1", [id]);
  return status;
}

const onSecret = async (link: LinkRecord, method: string, path: string, body?: object) => {
  const answer = await server.admin.rest(method, `/api/v1/secrets/${link.secret_id}${path}`, body);
  expect(answer.status).to.be.within(200, 204);
};
const archive = (link: LinkRecord) => onSecret(link, "POST", "/archive", {});
const remove = (link: LinkRecord) => onSecret(link, "DELETE", "");
const restore = (link: LinkRecord) => onSecret(link, "POST", "/restore", {});
const switchSync = async (link: LinkRecord, sync_enabled: boolean) => {
  await links.put(link, { sync_enabled });
};

/** What makes there be something to write (gaps 4.2). */
const causes: readonly (readonly [string, (link: LinkRecord) => Promise<void>])[] = [
  ["a new value", (link) => links.write(link, "v2")],
  ["a rollback", (link) => onSecret(link, "POST", "/rollback", { version: 1 })],
  ["a rotation", (link) => onSecret(link, "POST", "/rotate", {})],
  ["a forced sync", (link) => onSecret(link, "POST", "/force-sync", {})],
];

describe("The status of a link", () => {
  it("is pending when it is made", async () => {
    const { link } = await linkThatIs("pending");

    expect(link.status).to.equal("pending");
  });

  it("is pending when sync is switched on", async () => {
    const { link } = await linkThatIs("disabled");

    await switchSync(link, true);

    expect(await statusOf(link)).to.equal("pending");
  });

  for (const [how, pause] of [
    ["archived", archive],
    ["deleted", remove],
  ] as const) {
    it(`is pending when a secret is restored that was ${how}, unless it is switched off`, async () => {
      const { link } = await linkThatIs("synced");
      const { body: off } = await links.post(link.secret_id, toWebhook("https://example.com", { sync_enabled: false }));
      await pause(link);

      await restore(link);

      expect(await statusOf(link)).to.equal("pending");
      expect(await statusOf(off)).to.equal("disabled");
    });
  }

  for (const state of ["synced", "failed", "pending"] as const) {
    for (const [cause, happen] of causes) {
      it(`is pending after ${cause} when it was ${state}`, async () => {
        const { link } = await linkThatIs(state);

        await happen(link);

        expect(await statusOf(link)).to.equal("pending");
      });
    }
  }

  it("is pending when the time has come to try again", async () => {
    const { link } = await linkThatIs("failed");

    await links.letTimePass(link);

    expect(await statusOf(link)).to.equal("pending");
  });

  for (const [how, note] of [
    ["was confirmed", noteConfirmed],
    ["has failed", (tools: Core, due: DueLink) => noteFailed(tools, due, new TargetError("refused", "no"))],
  ] as const) {
    it(`is pending when it was to be written again while an attempt ran that ${how}`, async () => {
      const { link } = await linkThatIs("pending");
      const { core } = server.server;
      const { links: claimed } = await claimDue(core, "", 100);
      const due = claimed.find(({ id }) => id === link.id) as DueLink;
      await onSecret(link, "POST", "/force-sync", {});

      await note(core, due);

      expect(await statusOf(link)).to.equal("pending");
    });
  }

  it("is syncing while a worker writes it, for no longer than an attempt takes, whatever happens to the secret", async () => {
    const { link, release } = await linkThatIs("syncing");
    const [{ seconds }] = await server.sql(
      "select extract(epoch from due_at - now())::float8 as seconds from secret_link where id = $1",
      [link.id],
    );

    await links.write(link, "v2");

    expect(await statusOf(link)).to.equal("syncing");
    expect(seconds).to.be.at.most(40);
    await release();
  });

  it("is synced once the place has confirmed, with what it has confirmed and when", async () => {
    const { link } = await linkThatIs("synced");

    expect(link).to.include({ version: 1, last_error: null });
    expect(Date.parse(link.last_synced)).to.be.closeTo(Date.now(), 60_000);
  });

  it("is failed once an attempt has, with why and when, and with what was confirmed before", async () => {
    const { link } = await linkThatIs("failed");

    expect(link).to.include({ version: null, last_synced: null });
    expect(link.last_error).to.have.all.keys("code", "message", "at");
    expect(Date.parse(link.last_error.at)).to.be.closeTo(Date.now(), 60_000);
  });

  for (const state of ["pending", "syncing", "synced", "failed", "disabled"] as const) {
    it(`is disabled when sync is switched off, or the secret archived or deleted, while it is ${state}`, async () => {
      const { link, release } = await linkThatIs(state);

      await switchSync(link, false);
      expect(await statusOf(link)).to.equal("disabled");
      await switchSync(link, state !== "disabled");
      await archive(link);
      expect(await keptStatusOf(link)).to.equal("disabled");
      await restore(link);
      await remove(link);
      expect(await keptStatusOf(link)).to.equal("disabled");

      await release();
      expect(await keptStatusOf(link)).to.equal("disabled");
    });
  }

  it("is disabled, and stays so, whatever would make there be something to write", async () => {
    const { link } = await linkThatIs("disabled");

    for (const [, happen] of causes) await happen(link);

    expect(await statusOf(link)).to.equal("disabled");
  });
});
