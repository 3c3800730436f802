import { createHmac, hkdfSync, randomBytes } from "node:crypto";
import { expect } from "chai";
import {
  type ChainedEvent,
  ChainVerifier,
  type EventContent,
  hashOf,
  headOf,
  organizationChainKey,
  sealOfEnd,
  startOfChain,
} from "../../src/standards/audit-chain.ts";

const installationKey = Buffer.alloc(32, 7);
const organizationId = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";
const key = organizationChainKey(installationKey, organizationId);

const content: EventContent = {
  id: "0198c0de-0000-7000-8000-000000000001",
  occurredAt: "2026-01-02T03:04:05.678Z",
  action: "secret.read_value",
  outcome: "success",
  actorType: "user",
  actorId: "0198c0de-0000-7000-8000-000000000002",
  actorName: "Zoë \u{1f511}",
  resourceType: "secret",
  resourceId: "0198c0de-0000-7000-8000-000000000003",
  resourceName: 'quotes " and \\ and \u2028',
  projectId: null,
  reason: null,
  requestId: "r-1",
  sourceIp: "192.0.2.1",
  userAgent: "",
  details: '{"version":1,"nested":{"b":[1.5,null]}}',
};

/** A chain of so many events, numbered by their request ids. */
function chainOf(length: number, chain = 1): ChainedEvent[] {
  let previousHash = startOfChain(key, chain);
  return Array.from({ length }, (_, index) => {
    const event = { ...content, requestId: `c${chain}-${index + 1}` };
    const hash = hashOf(key, previousHash, event);
    const chained = { ...event, chain, sequence: index + 1, previousHash, hash };
    previousHash = hash;
    return chained;
  });
}

const endOf = (events: readonly ChainedEvent[]) => {
  const { chain, sequence: length, hash } = events.at(-1) as ChainedEvent;
  return { chain, length, hash };
};

/** The first break as "chain/sequence reason", or "none". */
function breakIn(events: readonly ChainedEvent[], expected = [] as { chain: number; length: number; hash: string }[]) {
  const verifier = new ChainVerifier(key, expected);
  for (const event of events) verifier.add(event);
  const broken = verifier.firstBreak();
  return broken === undefined ? "none" : `${broken.chain}/${broken.sequence} ${broken.reason}`;
}

describe("The hash of an audit event", () => {
  it("can be computed from the exported record with nothing but HMAC-SHA256 and JSON", () => {
    const previousHash = "ab".repeat(32);
    const derived = hkdfSync("sha256", installationKey, "", `holdfast/v1|audit-chain|${organizationId}`, 32);
    const canonical = JSON.stringify([
      content.id,
      content.occurredAt,
      content.action,
      content.outcome,
      content.actorType,
      content.actorId,
      content.actorName,
      content.resourceType,
      content.resourceId,
      content.resourceName,
      content.projectId,
      content.reason,
      content.requestId,
      content.sourceIp,
      content.userAgent,
      JSON.parse(content.details),
    ]);

    const hash = createHmac("sha256", Buffer.from(derived))
      .update(previousHash + canonical)
      .digest("hex");

    expect(hashOf(key, previousHash, content)).to.equal(hash);
  });

  it("is as it was when the format was decided", () => {
    expect(startOfChain(key, 1)).to.equal("1e91d2b22668fc829dd9b911f94b3536a428035a95f9d35f03ca080ed5a384b1");
    expect(hashOf(key, startOfChain(key, 1), content)).to.equal(
      "c2ae5ce6169d8882588eba6b7cb96c17d965df9a5e530b110f3fc64471073efc",
    );
    expect(sealOfEnd(key, { chain: 1, length: 2, hash: "ab".repeat(32) })).to.equal(
      "336d7be3db5ee79fd356484e0878803ff69b1086c748389f1dbd2528bfa9b0c3",
    );
    expect(headOf([{ chain: 1, length: 2, hash: "ab".repeat(32) }])).to.equal(
      "a46e700a9cf3dab5ad0f91e6b46ae66fda11ca61dca2a2eec4f172a4bf0cb2b6",
    );
  });

  it("differs when any field differs, and when null becomes an empty text", () => {
    const original = hashOf(key, "", content);

    for (const [name, value] of Object.entries(content)) {
      const changed = { ...content, [name]: value === null ? "" : `${value}x` };
      expect(hashOf(key, "", changed), name).not.to.equal(original);
    }
  });

  it("differs by organization, by installation and by the hash before it", () => {
    const hashes = [
      hashOf(key, "", content),
      hashOf(key, "0", content),
      hashOf(organizationChainKey(installationKey, "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f56"), "", content),
      hashOf(organizationChainKey(randomBytes(32), organizationId), "", content),
    ];

    expect(new Set(hashes).size).to.equal(4);
  });
});

describe("Verification of chains", () => {
  it("accepts chains as they were written, however they are interleaved, and says where they end", () => {
    const [first, second] = [chainOf(5), chainOf(3, 2)];
    const interleaved = [0, 1, 2, 3, 4].flatMap((at) => [second[at] ?? [], first[at] ?? []].flat());
    const verifier = new ChainVerifier(key);

    for (const event of interleaved) verifier.add(event);

    expect(verifier.firstBreak()).to.equal(undefined);
    expect(verifier.ends()).to.deep.equal([endOf(first), endOf(second)]);
    const { checked, firstSequence, lastSequence } = verifier;
    expect({ checked, firstSequence, lastSequence }).to.deep.equal({ checked: 8, firstSequence: 1, lastSequence: 5 });
  });

  it("accepts an empty log", () => {
    const { checked, firstSequence, lastSequence } = new ChainVerifier(key);

    expect(breakIn([])).to.equal("none");
    expect([checked, firstSequence, lastSequence]).to.deep.equal([0, 0, 0]);
  });

  it("names the event whose content, hash or previous hash was changed", () => {
    for (const name of Object.keys({ ...content, previousHash: "", hash: "" }) as (keyof ChainedEvent)[]) {
      const events = chainOf(4).map((event) => (event.sequence === 3 ? { ...event, [name]: "changed" } : event));
      expect(breakIn(events), name).to.equal("1/3 changed");
    }
  });

  it("names the first event that is missing: at the start, amid the chain, and before the end that is expected", () => {
    const events = chainOf(5);
    const without = (sequence: number) => events.filter((event) => event.sequence !== sequence);

    expect(breakIn(without(1))).to.equal("1/1 missing");
    expect(breakIn(without(3))).to.equal("1/3 missing");
    expect(breakIn(without(5))).to.equal("none");
    expect(breakIn(without(5), [endOf(events)])).to.equal("1/5 missing");
    expect(breakIn([], [endOf(events)])).to.equal("1/1 missing");
  });

  it("names where an event stands that was written elsewhere", () => {
    const [first, second] = [chainOf(5), chainOf(5, 2)];
    const swapped = (a: number, b: number) => {
      const places = new Map([
        [a, b],
        [b, a],
      ]);
      const moved = first.map((event) => ({ ...event, sequence: places.get(event.sequence) ?? event.sequence }));
      return moved.sort((one, other) => one.sequence - other.sequence);
    };
    const replaced = (sequence: number, by: ChainedEvent) =>
      first.map((event) => (event.sequence === sequence ? { ...by, chain: 1, sequence } : event));

    expect(breakIn(swapped(2, 3))).to.equal("1/2 moved");
    expect(breakIn(swapped(1, 5))).to.equal("1/1 moved");
    expect(breakIn(replaced(4, second[3] as ChainedEvent))).to.equal("1/4 moved");
    expect(breakIn(first.map((event) => ({ ...event, chain: 2 })))).to.equal("1/1 missing");
    expect(breakIn(second.map((event) => ({ ...event, chain: 1 })))).to.equal("1/1 moved");
    expect(breakIn(first.flatMap((event) => (event.sequence === 2 ? [event, event] : event)))).to.equal("1/2 moved");
    const closedUp = first
      .filter(({ sequence }) => sequence !== 2)
      .map((event, at) => ({ ...event, sequence: at + 1 }));
    expect(breakIn(closedUp)).to.equal("1/2 moved");
  });

  it("names a chain that is missing between others", () => {
    expect(breakIn([...chainOf(2), ...chainOf(2, 3)])).to.equal("2/1 missing");
    expect(breakIn(chainOf(2, 2))).to.equal("1/1 missing");
  });

  it("names the first place of the smallest chain of several, whatever their order", () => {
    const broken = (chain: number, sequence: number) =>
      chainOf(4, chain).map((event) => (event.sequence >= sequence ? { ...event, reason: "changed" } : event));

    expect(breakIn([...broken(3, 1), ...broken(2, 2), ...chainOf(4)])).to.equal("2/2 changed");
  });

  it("names the expected end whose hash is another", () => {
    const events = chainOf(3);

    expect(breakIn(events, [{ ...endOf(events.slice(0, 2)), hash: "00".repeat(32) }])).to.equal("1/2 changed");
    expect(breakIn(events, [endOf(events.slice(0, 2))])).to.equal("none");
  });
});
