/** For `sandlot trace` and for spans: records store calls as steps. Requests are steps of http/dispatch.ts. */

import { stepsOf } from "../base/steps.ts";
import type { Store } from "../store/store.ts";

export function traceStore(store: Store): void {
  stepsOf(store, { transaction: "store: transaction" });
  for (const [table, calls] of Object.entries(store)) {
    if (typeof calls !== "object") continue;
    stepsOf(calls, Object.fromEntries(Object.keys(calls).map((name) => [name, `store: ${table}.${name}`])));
  }
}
