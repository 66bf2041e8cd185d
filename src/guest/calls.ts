/**
 * The Connect services, put together. This part of the guest is loaded by the first call. Calls about the file tree are
 * a part of their own: most sandboxes only run commands.
 */
import type { ServiceImpl } from "@connectrpc/connect";
import type { Filesystem } from "../contract/runtime/wire/filesystem/filesystem_pb.ts";
import type { Journal } from "./journal/journal.ts";
import { LaterPart } from "./later-part.ts";
import { createLaunch } from "./process/launcher.ts";
import { handOutputsOver } from "./process/pipes.ts";
import { processService } from "./process/process-service.ts";
import { createRpcRoutes, type RpcRoutes } from "./rpc/rpc.ts";
import type { MeminfoFile } from "./system/meminfo-file.ts";
import type { Accounts } from "./users/accounts.ts";
import type { SettingsKeeper } from "./users/settings.ts";

export interface Calls extends RpcRoutes {
  /** Lets all processes go on without this guest. */
  letGo(): void;
}

export function createCalls(
  settings: SettingsKeeper,
  accounts: Accounts,
  journal: Journal,
  meminfoFile: MeminfoFile,
  { path, setpriv }: { path: string | undefined; setpriv: string | undefined },
): Calls {
  const routes = createRpcRoutes(
    processService(createLaunch(settings, path, setpriv), journal, meminfoFile),
    laterFilesystem(async () => {
      const { filesystemService } = await import("./filesystem/filesystem-service.ts");
      return filesystemService(settings, accounts, journal);
    }),
  );
  return { ...routes, letGo: handOutputsOver };
}

function laterFilesystem(load: () => Promise<ServiceImpl<typeof Filesystem>>): ServiceImpl<typeof Filesystem> {
  const service = new LaterPart(load);
  return {
    stat: async (request, context) => (await service.take()).stat(request, context),
    makeDir: async (request, context) => (await service.take()).makeDir(request, context),
    move: async (request, context) => (await service.take()).move(request, context),
    listDir: async (request, context) => (await service.take()).listDir(request, context),
    remove: async (request, context) => (await service.take()).remove(request, context),
    async *watchDir(request, context) {
      yield* (await service.take()).watchDir(request, context);
    },
    createWatcher: async (request, context) => (await service.take()).createWatcher(request, context),
    getWatcherEvents: async (request, context) => (await service.take()).getWatcherEvents(request, context),
    removeWatcher: async (request, context) => (await service.take()).removeWatcher(request, context),
  };
}
