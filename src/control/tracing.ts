/** For `sandlot trace`: records requests to the management interface, and their store calls, as steps. */

import { masked } from "../base/log.ts";
import { stepsOf } from "../base/steps.ts";
import type { Store } from "../store/store.ts";
import type { Control } from "./control.ts";

export function traceControl(control: Control, store: Store): void {
  stepsOf(control, { handle: ({ method, url }: Request) => `${method} ${masked(new URL(url).pathname)}` });
  stepsOf(store, { transaction: "store: transaction" });
  for (const [table, calls] of Object.entries(store)) {
    if (typeof calls !== "object") continue;
    stepsOf(calls, Object.fromEntries(Object.keys(calls).map((name) => [name, `store: ${table}.${name}`])));
  }
}
