/** The guest daemon: assembles its parts and listens on the runtime port. main.ts describes its folders. */
import { CONTROL_SECRET_FILE } from "../contract/runtime/guest-control.ts";
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import { ControlChannel } from "./control-channel.ts";
import { type GuestServices, handleRequest } from "./front-door.ts";
import { Journal } from "./journal/journal.ts";
import { LazyPart } from "./lazy-part.ts";
import { logError, mirrorLog } from "./system/log.ts";
import { renewMachineId } from "./system/machine-id.ts";
import { MeminfoFile } from "./system/meminfo-file.ts";
import { Meter } from "./system/metrics.ts";
import { wholeNumber } from "./system/whole-number.ts";
import { Accounts } from "./users/accounts.ts";
import { SettingsKeeper } from "./users/settings.ts";

/** The maximum that Bun accepts. Streams switch the idle timeout off for themselves. */
const IDLE_CONNECTION_SECONDS = 255;

/** Prefixes of variables that only the guest may see. */
const OWN_PREFIXES = ["SANDLOT_", "BUN_", "MIMALLOC_", "GLIBC_TUNABLES"];
const LIBRARIES = "LD_LIBRARY_PATH";
const DIGITS_MAX = 9;

function isOwn(name: string): boolean {
  return name === LIBRARIES || OWN_PREFIXES.some((prefix) => name.startsWith(prefix));
}

/** Reads the guest's own variables and removes them, so that user processes cannot inherit them. */
function takeVariables(): (name: string) => string | undefined {
  const taken = new Map<string, string | undefined>();
  for (const name of Object.keys(process.env)) {
    if (!isOwn(name)) continue;
    taken.set(name, process.env[name]);
    delete process.env[name];
  }
  return (name) => taken.get(name) || undefined;
}

export function runDaemon(): void {
  process.on("uncaughtException", (thrown) => logError("survived an uncaught exception", thrown));
  process.on("unhandledRejection", (thrown) => logError("survived an unhandled rejection", thrown));
  process.on("SIGTERM", () => process.exit(0));
  process.umask(0o022);

  const variable = takeVariables();
  const numeric = (name: string) => wholeNumber(variable(name), DIGITS_MAX);
  const stateFolder = variable("SANDLOT_STATE_DIR");
  const journal = new Journal();
  mirrorLog((level, message) => journal.note("runtime", level, message));
  const settings = new SettingsKeeper(stateFolder ?? "/run/sandlot");
  if (settings.sandboxId !== "") journal.note("runtime", "warn", "The runtime was started again");
  else if (variable("SANDLOT_COPY") !== undefined) renewMachineId();
  const accounts = new Accounts();
  const meter = new Meter(numeric("SANDLOT_CPU_COUNT"), numeric("SANDLOT_MEMORY_MB"));
  const meminfoFile = new MeminfoFile(variable("SANDLOT_MEMORY_FILE"), () => meter.memory());
  const start = { path: process.env.PATH, setpriv: variable("SANDLOT_SETPRIV") };
  const rpc = new LazyPart(async () => {
    const { createConnectServices } = await import("./connect-services.ts");
    return createConnectServices(settings, accounts, journal, meminfoFile, start);
  });
  const files = new LazyPart(async () => {
    const { FileRequests } = await import("./file-requests.ts");
    return new FileRequests({ settings, accounts, journal, meminfoFile });
  });
  const services: GuestServices = {
    settings,
    accounts,
    control: new ControlChannel(variable("SANDLOT_CONTROL_SECRET_FILE") ?? CONTROL_SECRET_FILE, {
      settings,
      forwarders: new LazyPart(async () => {
        const { Forwarders } = await import("./system/forwarder.ts");
        return new Forwarders();
      }),
      journal,
      meminfoFile,
      variablesFolder: stateFolder === undefined ? "/run/e2b" : `${stateFolder}/e2b`,
      // Before the first RPC call there are no processes.
      handOverOutputs: async () => (rpc.isRequested ? (await rpc.load()).handOverOutputs() : undefined),
      end: () => process.exit(0),
    }),
    rpc,
    files,
    meter,
  };

  Bun.serve({
    hostname: "0.0.0.0",
    port: numeric("SANDLOT_GUEST_PORT") ?? RUNTIME_PORT,
    idleTimeout: IDLE_CONNECTION_SECONDS,
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    fetch(request, server) {
      // Streams may be silent and uploads may stall for longer than any idle timeout.
      server.timeout(request, 0);
      return handleRequest(request, services);
    },
  });
  meminfoFile.touch();
}
