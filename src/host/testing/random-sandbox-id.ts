/** Sandbox ids for tests. */
import { ID_CHARS, ID_LETTERS } from "../../contract/ids.ts";

/** Counted, not random, so that a test replays; scattered, so that order by id is not order by time. */
export function scatteredId(nth: number): string {
  let number = (nth * 2_654_435_761) % 2 ** 32;
  let id = "";
  while (id.length < ID_CHARS) {
    id += ID_LETTERS[number % ID_LETTERS.length];
    number = (number * 69_069 + 1) % 2 ** 32;
  }
  return `i${id}`;
}
