/** Opens the store of a data folder, for commands that run beside a running server or without one. */
import { existsSync } from "node:fs";
import { Fault } from "../contract/fault.ts";
import { openMigratedStore, type Store } from "../store/store.ts";
import { DataFolder } from "../system/data-folder.ts";
import { requireRoot } from "./prepare.ts";
import type { Config } from "./settings/config.ts";

/** Throws Fault 409 for a store of an earlier version: it may be that of a server that runs. */
export async function withStore<T>(
  { dataFolder }: Pick<Config, "dataFolder">,
  work: (store: Store) => Promise<T>,
): Promise<T> {
  requireRoot();
  const data = new DataFolder(dataFolder);
  if (!existsSync(data.storeFile)) {
    throw new Fault(404, `no server has run on ${dataFolder} yet. FIX: sandlot up`);
  }
  const store = await openMigratedStore(`sqlite://${data.storeFile}`);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}
