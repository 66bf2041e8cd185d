/**
 * The guest: the daemon inside every sandbox, on the runtime port. It starts and feeds user processes, transfers files
 * and reports metrics. It knows the host only through the control channel, accepts no request without its token, and
 * survives whatever a request or a process does.
 *
 *   front-door.ts   the order of checks on every request        rpc/          Connect calls
 *   process/        processes, their listeners and terminals    filesystem/   calls about files, and watching
 *   files/          contents of files: upload, download         file-tree/    changes and walks of the file tree
 *   users/          users, tokens, paths, settings              system/       the sandbox's kernel and C library
 *   journal/        events for the sandbox's log                programs/     programs the host runs for templates
 *
 * The code that every boot loads is small (daemon.ts). The Connect services (connect-services.ts) and file
 * transfers (file-requests.ts) are loaded by the first request for them.
 *
 * The same binary contains a few programs that the host starts inside a sandbox while it builds a template.
 */
import { runDaemon } from "./daemon.ts";
import { logError } from "./system/log.ts";

/** Only the daemon is imported statically: every boot runs it, and a later import takes longer. */
async function main([program, request = ""]: string[]): Promise<void> {
  if (program === undefined) {
    runDaemon();
    return;
  }
  const { runProgram } = await import("./programs/programs.ts");
  process.exit(await runProgram(program, request));
}

main(process.argv.slice(2)).catch((thrown: unknown) => {
  // A guest that cannot listen is useless: exit, so that init starts another one.
  logError("the guest could not start", thrown);
  process.exit(1);
});
