/** Passes output from a listener to the client's stream. */
import type { Shortcut } from "../rpc/shortcut.ts";
import { discard } from "../system/garbage.ts";
import { EnvelopeWriter } from "./output-envelopes.ts";
import type { Subscription } from "./subscription.ts";

/** Writes output whenever the stream has room for it. */
export function passOutputBy(subscription: Subscription, shortcut: Shortcut): void {
  const writer = new EnvelopeWriter();
  let isTold = false;
  subscription.setOutputApart(() => {
    if (isTold) return;
    isTold = true;
    // Deferred, so that other output that is ready goes out in the same write.
    setImmediate(() => {
      isTold = false;
      shortcut.ready();
    });
  });
  shortcut.open(() => {
    const pieces = subscription.takeOutput();
    if (pieces.length === 0) return undefined;
    const envelopes = writer.write(pieces, shortcut.codec);
    for (const { whole } of pieces) if (whole !== undefined) discard(whole);
    return envelopes;
  });
}
