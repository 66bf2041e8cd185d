/** Assembles the Connect services. The guest loads this file on the first RPC call. */
import { filesystemService } from "./filesystem/filesystem-service.ts";
import type { Journal } from "./journal/journal.ts";
import { createLaunch } from "./process/launcher.ts";
import { handOutputsOver } from "./process/pipes.ts";
import { processService } from "./process/process-service.ts";
import { createRpcRoutes, type RpcRoutes } from "./rpc/rpc.ts";
import type { MeminfoFile } from "./system/meminfo-file.ts";
import type { Accounts } from "./users/accounts.ts";
import type { SettingsKeeper } from "./users/settings.ts";

export interface ConnectServices extends RpcRoutes {
  /** Hands the output of running processes to other readers, so that they survive the end of this guest. */
  handOverOutputs(): void;
}

export function createConnectServices(
  settings: SettingsKeeper,
  accounts: Accounts,
  journal: Journal,
  meminfoFile: MeminfoFile,
  { path, setpriv }: { path: string | undefined; setpriv: string | undefined },
): ConnectServices {
  const routes = createRpcRoutes(
    processService(createLaunch(settings, path, setpriv), journal, meminfoFile),
    filesystemService(settings, accounts, journal),
  );
  return { ...routes, handOverOutputs: handOutputsOver };
}
