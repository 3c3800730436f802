/** All of these in some order, then in another, and so on: by chance, and yet each as often as the others. */
export function* deckOf<T>(cards: readonly T[], random: () => number): Generator<T, never> {
  for (;;) {
    const order = cards.map((card) => ({ card, place: random() }));
    for (const { card } of order.sort((one, other) => one.place - other.place)) yield card;
  }
}
