/** When garbage of requests is collected. */
import { expect, spyOn, test } from "bun:test";
import { folderOfTest } from "../../base/testing/test-folder.ts";
import { type GuestServices, handleRequest } from "../front-door.ts";
import { SettingsKeeper } from "../users/settings.ts";
import { GARBAGE_WAITS_MS } from "./garbage.ts";

const folder = folderOfTest("garbage");

test("garbage is collected once after a request; not before hand-over, and not for health checks", async () => {
  const due: (() => void)[] = [];
  const timer = { unref: () => undefined } as unknown as ReturnType<typeof setTimeout>;
  const timers = spyOn(globalThis, "setTimeout").mockImplementation(((call: () => void, ms: number) => {
    if (ms === GARBAGE_WAITS_MS) due.push(call);
    return timer;
  }) as typeof setTimeout);
  const collected = spyOn(Bun, "gc").mockImplementation(() => 0);
  const settings = new SettingsKeeper(folder);
  const services = {
    settings,
    control: { takeSettings: () => undefined, admits: () => false },
  } as unknown as GuestServices;
  const ask = async (path: string) => (await handleRequest(new Request(`http://guest${path}`), services)).status;
  try {
    expect(await ask("/envs")).toBe(200);
    expect(due).toHaveLength(0);
    settings.replace({ ...settings.current, sandboxId: "i1" });
    expect(await ask("/health")).toBe(204);
    expect(due).toHaveLength(0);
    expect([await ask("/envs"), await ask("/envs")]).toEqual([200, 200]);
    expect(due).toHaveLength(1);
    expect(collected).not.toHaveBeenCalled();
    due[0]?.();
    expect(collected).toHaveBeenCalledTimes(1);
    await ask("/envs");
    expect(due).toHaveLength(2);
  } finally {
    timers.mockRestore();
    collected.mockRestore();
  }
});
