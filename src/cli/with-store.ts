/** Opens the store of a data folder, for commands that run beside a running server or without one. */
import { systemClock } from "../base/clock.ts";
import { Fault } from "../contract/fault.ts";
import { commandOrigin } from "../control/audit/audit.ts";
import { createIds } from "../control/ids.ts";
import { openMigratedStore, type Store } from "../store/store.ts";
import { hasStore, requireOwnDatabase, type StoreSettings, storeUrl } from "./folder-store.ts";
import { requireRoot } from "./prepare.ts";
import { printList } from "./print-list.ts";
import type { Config } from "./settings/config.ts";

/** Throws Fault 409 for a store of an earlier version: it may be that of a server that runs. */
export async function withStore<T>(config: StoreSettings, work: (store: Store) => Promise<T>): Promise<T> {
  requireRoot();
  const url = storeUrl(config);
  if (!hasStore(config)) throw new Fault(404, `no server has run on ${config.dataFolder} yet. FIX: sandlot up`);
  const store = await openMigratedStore(url);
  try {
    if (config.postgres !== undefined) requireOwnDatabase(config, config.postgres, await store.nodes.all());
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Prints the lines that `work` returns, or `ifEmpty` if there are none. */
export function printFromStore(
  config: Config,
  work: (store: Store) => Promise<readonly string[]>,
  ifEmpty?: string,
): Promise<number> {
  return withStore(config, async (store) => {
    printList(await work(store), ifEmpty);
    return 0;
  });
}

/** What a change of the store needs to be recorded as this command of the operator. */
export function recording(store: Store, command: string) {
  return { store, ids: createIds(), clock: systemClock, origin: commandOrigin(command) };
}
