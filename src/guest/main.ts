/**
 * The guest: the daemon inside every sandbox, on the runtime port. It starts and feeds user processes, carries files,
 * and tells how the sandbox is doing. It knows nothing of the host beyond the control channel, trusts no request
 * without its token, and survives whatever a request or a process does.
 *
 *   front-door.ts   the order of checks on every request        rpc/          Connect calls
 *   process/        processes, their listeners and terminals    filesystem/   calls about files, and watching
 *   files/          contents of files: upload, download         tree/         changes and walks of the file tree
 *   users/          users, tokens, paths, settings              system/       the sandbox's kernel and C library
 *   journal/        what happened, for the sandbox's log
 */
import { CONTROL_SECRET_ENV } from "../contract/runtime/guest-control.ts";
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import { createControlChannel } from "./control-channel.ts";
import { filesystemService } from "./filesystem/filesystem-service.ts";
import { answer, type GuestServices } from "./front-door.ts";
import { Journal } from "./journal/journal.ts";
import { createLaunch } from "./process/launcher.ts";
import { processService } from "./process/process-service.ts";
import { ProcessTable } from "./process/process-table.ts";
import { createRpcRoutes } from "./rpc/rpc.ts";
import { Forwarders } from "./system/forwarder.ts";
import { logError, mirrorLog } from "./system/log.ts";
import { MeminfoFile } from "./system/meminfo-file.ts";
import { Meter } from "./system/metrics.ts";
import { takeOwnIdentity } from "./system/own-identity.ts";
import { Accounts } from "./users/accounts.ts";
import { SettingsKeeper } from "./users/settings.ts";

/** Bun takes no more; streams switch it off for themselves. */
const IDLE_CONNECTION_SECONDS = 255;

/** Reads the guest's own variables and removes them, so that nothing of this program can hand them on. */
function takeVariables(): (name: string) => string | undefined {
  // What is meant for this program alone: no process of a user inherits it.
  const own = Object.entries(process.env).filter(([name]) => name.startsWith("SANDLOT_") || name === "LD_LIBRARY_PATH");
  for (const [name] of own) delete process.env[name];
  const taken = new Map(own);
  return (name) => taken.get(name) || undefined;
}

function wholeNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

function main(): void {
  process.on("uncaughtException", (thrown) => logError("survived an uncaught exception", thrown));
  process.on("unhandledRejection", (thrown) => logError("survived an unhandled rejection", thrown));
  process.on("SIGTERM", () => process.exit(0));
  process.umask(0o022);

  const variable = takeVariables();
  const stateFolder = variable("SANDLOT_STATE_DIR");
  const journal = new Journal();
  mirrorLog((level, message) => journal.note("runtime", level, message));
  const settings = new SettingsKeeper(stateFolder ?? "/run/sandlot");
  if (settings.sandboxId !== "") journal.note("runtime", "warn", "The runtime was started again");
  else if (variable("SANDLOT_COPY") !== undefined) takeOwnIdentity();
  const accounts = new Accounts();
  const launch = createLaunch(settings, process.env.PATH, variable("SANDLOT_SETPRIV"));
  const meter = new Meter(wholeNumber(variable("SANDLOT_CPU_COUNT")), wholeNumber(variable("SANDLOT_MEMORY_MB")));
  const meminfoFile = new MeminfoFile(variable("SANDLOT_MEMORY_FILE"), () => meter.memory());
  const services: GuestServices = {
    settings,
    accounts,
    control: createControlChannel(variable(CONTROL_SECRET_ENV), {
      settings,
      forwarders: new Forwarders(),
      journal,
      meminfoFile,
      variablesFolder: stateFolder === undefined ? "/run/e2b" : `${stateFolder}/e2b`,
    }),
    rpc: createRpcRoutes(
      processService(new ProcessTable(), launch, journal, meminfoFile),
      filesystemService(settings, accounts, journal),
    ),
    meter,
    journal,
  };

  Bun.serve({
    hostname: "0.0.0.0",
    port: wholeNumber(variable("SANDLOT_GUEST_PORT")) ?? RUNTIME_PORT,
    idleTimeout: IDLE_CONNECTION_SECONDS,
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    fetch(request, server) {
      // A stream may be silent, and an upload stuck, for longer than any idle limit.
      server.timeout(request, 0);
      return answer(request, services);
    },
  });
}

try {
  main();
} catch (thrown) {
  // A guest that does not listen is of no use: let init start another one.
  logError("the guest could not start", thrown);
  process.exit(1);
}
