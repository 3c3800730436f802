/** Downloads at a time: each keeps some parts of a list in memory, for as long as its client likes to read slowly. */
const most = 500;
const mostOfAddress = 25;

/** Places for those who download lists, so that slow ones cost a bounded memory and leave some for others. */
export class Places {
  #taken = 0;
  readonly #byAddress = new Map<string, number>();

  /** Takes a place, which the answer gives back when called once; undefined when there is none left for the address. */
  take(address: string): (() => void) | undefined {
    const its = this.#byAddress.get(address) ?? 0;
    if (this.#taken >= most || its >= mostOfAddress) return undefined;
    this.#taken += 1;
    this.#byAddress.set(address, its + 1);
    return () => this.#giveBack(address);
  }

  #giveBack(address: string): void {
    this.#taken -= 1;
    const left = (this.#byAddress.get(address) ?? 0) - 1;
    if (left > 0) this.#byAddress.set(address, left);
    else this.#byAddress.delete(address);
  }
}
