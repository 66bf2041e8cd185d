/** For `sandlot trace` and for spans: records store calls as steps. Requests are steps of http/dispatch.ts. */
import { recordCalls } from "../base/steps.ts";
import type { Store } from "../store/store.ts";

export function traceStore(store: Store): void {
  recordCalls(store, { transaction: "store: transaction" });
  for (const [table, calls] of Object.entries(store)) {
    if (typeof calls !== "object") continue;
    recordCalls(calls, Object.fromEntries(Object.keys(calls).map((name) => [name, `store: ${table}.${name}`])));
  }
}
