/** How late a server on the real clock is at the end of a sandbox's timeout. */
import { systemClock } from "../../base/clock.ts";
import { jsonLog } from "../../base/log.ts";
import { createControl } from "../control.ts";
import type { ControlFixture } from "./control-fixture.ts";

/** Milliseconds from the end of a timeout of one second to the host's call. Replaces the control of the fixture. */
export async function lateness(fixture: ControlFixture, { autoPause }: { autoPause: boolean }): Promise<number> {
  await fixture.control.close();
  const control = createControl({
    ...fixture.services,
    clock: systemClock,
    log: jsonLog(() => undefined),
    activity: {},
  });
  await control.start();
  try {
    const called = Promise.withResolvers<number>();
    fixture.host[autoPause ? "beforePause" : "beforeDestroy"] = async () => called.resolve(Date.now());
    const request = {
      method: "POST",
      headers: { "X-API-Key": fixture.apiKey },
      body: JSON.stringify({ templateID: "base", timeout: 1, autoPause }),
    };
    const response = await control.handle(new Request("http://localhost/sandboxes", request));
    const row = await fixture.store.sandboxes.byId((await response.json()).sandboxID);
    return (await called.promise) - (row?.endAt ?? 0);
  } finally {
    await control.close();
  }
}
