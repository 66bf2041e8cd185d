/** Opens the server's store. In Postgres, the server joins first, so that no two servers change the same rows. */
import { readFileSync } from "node:fs";
import { systemClock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { version } from "../../base/version.ts";
import { Membership, requireNoOther } from "../../fleet/membership.ts";
import { prepareStoreFiles } from "../../images/disk/store-files.ts";
import { openStore, type Store } from "../../store/store.ts";
import type { DataFolder } from "../../system/data-folder.ts";
import { readStoreNote, requireOwnDatabase, storeUrl, writeStoreNote } from "../folder-store.ts";
import type { Config } from "../settings/config.ts";

/** Differs after each start of the machine, and between machines. */
const BOOT_ID = "/proc/sys/kernel/random/boot_id";

interface ServerStore {
  store: Store;
  /** Undefined with SQLite, which has one server. */
  membership: Membership | undefined;
}

export async function openServerStore(config: Config, data: DataFolder, log: Log): Promise<ServerStore> {
  const url = storeUrl(config);
  const { postgres } = config;
  if (postgres === undefined) {
    await prepareStoreFiles(data.storeFile);
    return { store: await openStore(url, systemClock.now()), membership: undefined };
  }
  const noted = readStoreNote(data);
  const identity = noted?.identity ?? crypto.randomUUID();
  const store = await openStore(url, systemClock.now(), (nodes, databaseNow) => {
    requireOwnDatabase(config, postgres, nodes);
    requireNoOther(nodes, databaseNow, identity);
  });
  try {
    const note = { postgres: postgres.shown, identity };
    // Before the row: a crash in between leaves a row that this folder knows.
    writeStoreNote(data, { ...note, isJoined: noted?.isJoined === true });
    const boot = readFileSync(BOOT_ID, "utf8").trim();
    const services = { store, clock: systemClock, log, elapsedMs: () => performance.now() };
    const member = { identity, name: config.nodeName, boot, version: version() };
    const membership = await Membership.join(services, member);
    writeStoreNote(data, { ...note, isJoined: true });
    return { store, membership };
  } catch (error) {
    await store.close();
    throw error;
  }
}
