const fewestBytes = 1024;

/**
 * Bytes that come in pieces, gathered in one buffer. To keep a piece by itself takes a hundred bytes beside its own, which
 * whoever sends them one by one could use up the memory with.
 */
export class GatheredBytes {
  #buffer: Buffer = Buffer.alloc(0);
  #size = 0;

  add(piece: Buffer): void {
    const from = this.#size;
    this.#size += piece.length;
    // Most come in one piece, which is not copied.
    if (from === 0) this.#buffer = piece;
    else {
      this.#makeRoom(from);
      piece.copy(this.#buffer, from);
    }
  }

  /** All of them; to be read only. */
  all(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  #makeRoom(used: number): void {
    if (this.#size <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#size, 2 * this.#buffer.length, fewestBytes));
    this.#buffer.copy(larger, 0, 0, used);
    this.#buffer = larger;
  }
}
