/** Sandbox ids for tests. */
const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";
const LENGTH = 20;

/** Counted, not random, so that a test replays; scattered, so that order by id is not order by time. */
export function scatteredId(nth: number): string {
  let number = (nth * 2_654_435_761) % 2 ** 32;
  let id = "";
  while (id.length < LENGTH) {
    id += ALPHABET[number % ALPHABET.length];
    number = (number * 69_069 + 1) % 2 ** 32;
  }
  return `i${id}`;
}
