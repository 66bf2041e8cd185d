import { expect, test } from "bun:test";
import { type Room, setTargets } from "./shares.ts";
import { TemplatePool } from "./template-pool.ts";
import { PLAIN } from "./testing/pool-fixture.ts";

/** A pool with this demand, each sandbox of ten bytes unless given. */
function pool(owner: string, wanted: number, { floor = 0, bytes = 10 } = {}): TemplatePool {
  const made = new TemplatePool(PLAIN);
  for (let n = 0; n < wanted; n++) made.demand.note(owner, 0);
  made.put({ id: "", bytes });
  made.floor = floor;
  return made;
}

test.each<[string, TemplatePool[], Partial<Room>, number[]]>([
  ["without demand there is none", [pool("x", 0)], {}, [0]],
  ["with room there are as many as demanded", [pool("x", 20), pool("y", 3)], {}, [20, 3]],
  ["the minimum is kept without room", [pool("x", 20, { floor: 2 })], { places: 0, bytes: 0 }, [2]],
  ["the minimum is not added to demand", [pool("x", 5, { floor: 2 })], {}, [5]],
  ["one team gets at most 8 of 10 places", [pool("x", 50)], { places: 10 }, [8]],
  ["one team gets at most 80 of 100 bytes", [pool("x", 50)], { bytes: 100 }, [8]],
  [
    "one team with many templates gets 8 of 10 places, the newest first",
    [5, 5, 5].map((n) => pool("x", n)),
    { places: 10 },
    [5, 3, 0],
  ],
  ["teams take turns", [pool("x", 50), pool("y", 50)], { places: 10 }, [5, 5]],
  ["a team gets the rest of another", [pool("x", 50), pool("y", 2)], { places: 10 }, [8, 2]],
  ["a large one does not keep a small one out", [pool("x", 2, { bytes: 900 }), pool("x", 2)], { bytes: 50 }, [0, 2]],
  [
    "the minimum of one counts against the room of others",
    [pool("x", 0, { floor: 4 }), pool("y", 9)],
    { places: 10 },
    [4, 6],
  ],
])("%s", (_, pools, room, expected) => {
  setTargets(pools, { places: 1000, bytes: 100_000, ...room }, 0);
  expect(pools.map(({ target }) => target)).toEqual(expected);
});
