/** Opens the store of a data folder, for commands that run beside a running server or without one. */
import { existsSync } from "node:fs";
import { systemClock } from "../base/clock.ts";
import { Fault } from "../contract/fault.ts";
import { openStore, type Store } from "../store/store.ts";
import { DataFolder } from "../system/data-folder.ts";
import type { Config } from "./config.ts";
import { requireRoot } from "./prepare.ts";

export async function withStore<T>(config: Config, work: (store: Store) => Promise<T>): Promise<T> {
  requireRoot();
  const data = new DataFolder(config.dataFolder);
  if (!existsSync(data.storeFile)) {
    throw new Fault(404, `no server has run on ${config.dataFolder} yet. FIX: sandlot up`);
  }
  const store = await openStore(`sqlite://${data.storeFile}`, systemClock.now());
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}
