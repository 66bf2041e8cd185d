import { expect, test } from "bun:test";
import { DoorProbe } from "./port-probe.ts";

const ADDRESS = "127.81.8.1";

/** The probe's result within a few looks. */
async function opens(probe: DoorProbe): Promise<boolean> {
  for (let looks = 0; looks < 100; looks++) {
    if (probe.isOpen()) return true;
    await Bun.sleep(1);
  }
  return false;
}

test("a port is open while a process listens", async () => {
  const listener = Bun.listen({ hostname: ADDRESS, port: 0, socket: { data: () => undefined } });
  using probe = new DoorProbe(ADDRESS, listener.port);
  expect([await opens(probe), await opens(probe)]).toEqual([true, true]);
  listener.stop(true);
  expect(await opens(probe)).toBe(false);
});

test("a closed port leaves no open file behind", async () => {
  const probe = new DoorProbe(ADDRESS, 1);
  expect(await opens(probe)).toBe(false);
  probe[Symbol.dispose]();
  probe[Symbol.dispose]();
});
