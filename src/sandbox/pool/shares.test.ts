import { expect, test } from "bun:test";
import { type Room, setTargets } from "./shares.ts";
import { TemplatePool } from "./template-pool.ts";
import { PLAIN } from "./testing/pool-fixture.ts";

/** A stock with this demand, each of ten bytes unless given. */
function stock(owner: string, wanted: number, { floor = 0, bytes = 10 } = {}): TemplatePool {
  const made = new TemplatePool(PLAIN);
  for (let n = 0; n < wanted; n++) made.demand.note(owner, 0);
  made.put({ id: "", bytes });
  made.floor = floor;
  return made;
}

test.each<[string, TemplatePool[], Partial<Room>, number[]]>([
  ["without demand there is none", [stock("x", 0)], {}, [0]],
  ["with room there are as many as demanded", [stock("x", 20), stock("y", 3)], {}, [20, 3]],
  ["the minimum is kept without room", [stock("x", 20, { floor: 2 })], { places: 0, bytes: 0 }, [2]],
  ["the minimum is not added to demand", [stock("x", 5, { floor: 2 })], {}, [5]],
  ["one team gets at most 8 of 10 places", [stock("x", 50)], { places: 10 }, [8]],
  ["one team gets at most 80 of 100 bytes", [stock("x", 50)], { bytes: 100 }, [8]],
  [
    "one team with many templates gets 8 of 10 places, the newest first",
    [5, 5, 5].map((n) => stock("x", n)),
    { places: 10 },
    [5, 3, 0],
  ],
  ["teams take turns", [stock("x", 50), stock("y", 50)], { places: 10 }, [5, 5]],
  ["a team gets the rest of another", [stock("x", 50), stock("y", 2)], { places: 10 }, [8, 2]],
  ["a large one does not keep a small one out", [stock("x", 2, { bytes: 900 }), stock("x", 2)], { bytes: 50 }, [0, 2]],
  [
    "the minimum of one counts against the room of others",
    [stock("x", 0, { floor: 4 }), stock("y", 9)],
    { places: 10 },
    [4, 6],
  ],
])("%s", (_, stocks, room, expected) => {
  setTargets(stocks, { places: 1000, bytes: 100_000, ...room }, 0);
  expect(stocks.map(({ target }) => target)).toEqual(expected);
});
