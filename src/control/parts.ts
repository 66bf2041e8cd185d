/** The parts of the server that most of control works with. */
import type { Background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import type { Host } from "../contract/internal/host.ts";
import type { Store } from "../store/store.ts";
import type { Ids } from "./ids.ts";

export interface Parts {
  store: Store;
  host: Host;
  clock: Clock;
  /** For timers of background work. The ordinary clock; a test may move it separately. */
  idleClock: Clock;
  ids: Ids;
  log: Log;
  background: Background;
}
