import { formats, keytabWriter, readable } from "./keytab-files.ts";

/** Numbers that end a file, overflow, change their sign, or claim far more than there is. */
const lengths16 = [0, 1, 2, 16, 32, 255, 256, 0x7fff, 0x8000, 0xffff];
const lengths32 = [0, 1, 4, 26, 100, 0xffff, 2 ** 20, 2 ** 31 - 1, -1, -4, -100, -(2 ** 20), -(2 ** 31)];
const mostBytes = 4096;

/** Real files and a few for what no tool writes, each with 1 to 8 mutations, as `random` decides. */
export function keytabMutations(random: () => number): () => Buffer {
  const below = (limit: number) => Math.floor(random() * limit);
  const one = <T>(items: readonly T[]) => items[below(items.length)] as T;
  const written = formats.flatMap((format) => {
    const { file, entry, hole } = keytabWriter(format);
    return [
      file(hole(30), entry({ components: ["a", "b"], tail: 300 }), hole(1), entry()),
      file(entry({ components: [Buffer.alloc(40, 0xe9)], realm: "\0\\" }), Buffer.alloc(9)),
      file(...Array.from({ length: 20 }, () => entry({ key: Buffer.alloc(1) }))),
    ];
  });
  const originals = [...readable.map(({ bytes }) => bytes), ...written].filter(({ length }) => length <= mostBytes);

  const piece = (bytes: Buffer) => {
    const from = below(bytes.length + 1);
    return bytes.subarray(from, from + below(64));
  };
  const splice = (bytes: Buffer, at: number, removed: number, added: Buffer) =>
    Buffer.concat([bytes.subarray(0, at), added, bytes.subarray(at + removed)]);
  const number = () => {
    const { int } = keytabWriter(one(formats));
    return below(2) === 0 ? int(one(lengths16), 2) : int(one(lengths32), 4);
  };

  const mutations: readonly ((bytes: Buffer, at: number) => Buffer)[] = [
    (bytes, at) => splice(bytes, at, 1, Buffer.from([(bytes[at] ?? 0) ^ (1 << below(8))])),
    (bytes, at) => splice(bytes, at, 1, Buffer.from([below(256)])),
    (bytes, at) => splice(bytes, at, 1, Buffer.from([(bytes[at] ?? 0) + one([-1, 1])])),
    (bytes, at) => {
      const added = number();
      return splice(bytes, at, added.length, added);
    },
    (bytes, at) => splice(bytes, at, below(64), Buffer.alloc(0)),
    (bytes, at) => splice(bytes, at, 0, piece(bytes)),
    (bytes, at) => splice(bytes, at, 0, piece(one(originals))),
    (bytes, at) => splice(bytes, at, 0, Buffer.alloc(below(64), one([0, 0xff, 0x61]))),
    (bytes, at) => bytes.subarray(0, at),
    (bytes, at) => splice(bytes, at, bytes.length, one(originals)),
    (bytes) => Buffer.concat([bytes, Buffer.alloc(below(8), one([0, 0, 0, 0xff]))]),
    (bytes) => splice(bytes, 1, 1, Buffer.from([one([1, 1, 2, 2, 3])])),
  ];

  return () => {
    let bytes: Buffer = Buffer.from(one(originals));
    // Half of them near the front, on which all that follows depends.
    for (let count = 1 + below(below(4) === 0 ? 8 : 2); count > 0; count -= 1) {
      bytes = one(mutations)(bytes, below(below(2) === 0 ? bytes.length + 1 : Math.min(bytes.length, 100) + 1));
    }
    return bytes.subarray(0, 4 * mostBytes);
  };
}
