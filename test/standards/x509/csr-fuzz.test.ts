import { expect } from "chai";
import { header, sequence, tlv } from "../../../src/standards/der.ts";
import { InvalidCsr, readCsr } from "../../../src/standards/x509/csr.ts";
import { newKeyPair } from "../../../src/standards/x509/key-pairs.ts";
import { randomFrom } from "../../harness/random.ts";
import { attribute, attributes, extensionRequest, hostNames, requestDer, requestPem } from "./requests.ts";

const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
/** FUZZ_REQUESTS=1000000 looks longer, some minutes. */
const inputs = Number(process.env["FUZZ_REQUESTS"] ?? 2000);

/** The most that any of them may keep the processor busy. */
const limitMs = 500;

/** Reads it or refuses it, as fast as it must be. Answers whether it was read. */
function check(pem: string): boolean {
  const start = process.cpuUsage();
  let isRead = true;
  try {
    readCsr(pem);
  } catch (error) {
    if (!(error instanceof InvalidCsr)) throw new Error(`not refused but failed: ${pem}`, { cause: error });
    isRead = false;
  }
  const { user, system } = process.cpuUsage(start);
  expect((user + system) / 1000, pem.slice(0, 2000)).to.be.below(limitMs);
  return isRead;
}

describe(`A hostile certificate signing request (FUZZ_SEED=${seed})`, () => {
  it("that was changed at random is refused, for its signature is of all its bytes", async () => {
    const random = randomFrom(seed);
    const below = (end: number) => Math.floor(random() * end);
    const rest = [attributes(attribute(extensionRequest, sequence(hostNames("a.example", "b.example"))))];
    const sound = await Promise.all(
      [{ algorithm: "ECDSA", size: 256 } as const, { algorithm: "RSA", size: 2048 } as const].map(async (kind) =>
        requestDer(await newKeyPair(kind), { rest }),
      ),
    );
    const mutations: readonly ((der: Buffer) => Buffer)[] = [
      (der) => {
        der[below(der.length)] = below(256);
        return der;
      },
      (der) => {
        der.writeUInt32BE(below(2 ** 32), below(der.length - 4));
        return der;
      },
      (der) => der.subarray(0, below(der.length)),
      (der) => Buffer.concat([der.subarray(0, below(der.length)), der.subarray(below(der.length))]),
      (der) => {
        const at = below(der.length);
        return Buffer.concat([der.subarray(0, at), Buffer.of(0x30, 0x80 + below(128)), der.subarray(at)]);
      },
      (der) => der.fill(below(256), below(der.length), below(der.length)),
    ];

    for (let count = 0; count < inputs; count += 1) {
      const original = sound[below(sound.length)] as Buffer;
      const mutate = mutations[below(mutations.length)] as (typeof mutations)[0];
      const mutated = mutate(Buffer.from(original));

      const isRead = check(requestPem(mutated));

      expect(isRead, requestPem(mutated)).to.equal(mutated.equals(original));
    }
  });

  it("that was changed in its text is read or refused", async () => {
    const random = randomFrom(seed);
    const pem = requestPem(requestDer(await newKeyPair({ algorithm: "ECDSA", size: 256 })));
    for (let count = 0; count < inputs / 5; count += 1) {
      const at = Math.floor(random() * pem.length);
      const character = String.fromCharCode(Math.floor(random() * 0x180));

      check(pem.slice(0, at) + character + pem.slice(at + Math.floor(random() * 3)));
    }
  });

  /** Values within values, as many as fit. */
  function nested(depth: number, tag: number): Buffer {
    const headers: Buffer[] = [];
    let length = 0;
    for (let level = 0; level < depth; level += 1) {
      const next = header(tag, length);
      headers.push(next);
      length += next.length;
    }
    return Buffer.concat(headers.reverse());
  }
  const keys = newKeyPair({ algorithm: "ECDSA", size: 256 });
  const most = 45_000;
  const emptyAttribute = attribute("1.2.3");
  const set = tlv(0x31, sequence(Buffer.of(0x06, 3, 0x55, 4, 3), Buffer.of(0x0c, 1, 0x61)));
  const repeated = (value: Buffer) => Buffer.concat(Array.from({ length: most / value.length }, () => value));
  const shapes: Readonly<Record<string, () => Buffer | Promise<Buffer>>> = {
    "deeply nested sequences": () => nested(11_000, 0x30),
    "deeply nested sequences in the subject": async () => requestDer(await keys, { subject: nested(11_000, 0x30) }),
    "deeply nested sets in an attribute": async () =>
      requestDer(await keys, { rest: [attributes(attribute(extensionRequest, nested(11_000, 0x31)))] }),
    "indefinite lengths": () => Buffer.alloc(most, Buffer.of(0x30, 0x80)),
    "a length of 4 GiB": () => Buffer.of(0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0),
    "a length of 127 octets": () => Buffer.concat([Buffer.of(0x30, 0xff), Buffer.alloc(200, 0xff)]),
    "a name of thousands of attributes": async () => requestDer(await keys, { subject: sequence(repeated(set)) }),
    "a name of one endless attribute": async () =>
      requestDer(await keys, {
        subject: sequence(tlv(0x31, sequence(Buffer.of(0x06, 3, 0x55, 4, 3), tlv(0x1e, Buffer.alloc(most))))),
      }),
    "thousands of attributes": async () => requestDer(await keys, { rest: [attributes(repeated(emptyAttribute))] }),
    "thousands of extensions": async () => {
      const extension = sequence(Buffer.of(0x06, 1, 0x2a), Buffer.of(0x04, 0));
      return requestDer(await keys, { rest: [attributes(attribute(extensionRequest, repeated(extension)))] });
    },
    "thousands of alternative names": async () =>
      requestDer(await keys, {
        rest: [
          attributes(attribute(extensionRequest, sequence(hostNames(...Array.from({ length: 9000 }, () => "a.b"))))),
        ],
      }),
    "a key with an endless modulus": async () => {
      const bits = tlv(0x03, Buffer.of(0), sequence(tlv(0x02, Buffer.alloc(most, 0x7f)), Buffer.of(0x02, 3, 1, 0, 1)));
      const rsa = sequence(Buffer.from("06092a864886f70d0101010500", "hex"));
      return requestDer(await keys, { publicKey: sequence(rsa, bits) });
    },
    "a curve that is spelled out": async () => {
      const curve = sequence(Buffer.from("06072a8648ce3d0201", "hex"), sequence(tlv(0x02, Buffer.alloc(most, 0x7f))));
      return requestDer(await keys, { publicKey: sequence(curve, Buffer.of(0x03, 2, 0, 4)) });
    },
    "an endless signature": async () => requestDer(await keys, { sign: () => Buffer.alloc(most, 0x30) }),
  };
  const mayBeRead = new Set([
    "a name of thousands of attributes",
    "a name of one endless attribute",
    "thousands of attributes",
  ]);
  for (const [what, shape] of Object.entries(shapes)) {
    it(`is answered at once: ${what}`, async () => {
      const pem = requestPem(await shape());
      expect(pem.length).to.be.at.most(65_536);

      expect(check(pem)).to.equal(mayBeRead.has(what));
    });
  }

  it("is answered at once when it is all blanks, or lines that begin and never end", () => {
    const begin = "-----BEGIN CERTIFICATE REQUEST-----\n";

    for (const text of [
      " ".repeat(65_000),
      begin.repeat(1800),
      begin + "A".repeat(65_000),
      `${begin}${"\n".repeat(65_000)}`,
    ]) {
      expect(check(text)).to.equal(false);
    }
  });
});
