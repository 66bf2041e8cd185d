/**
 * The guest: the daemon inside every sandbox, on the runtime port. It starts and feeds user processes, carries files,
 * and tells how the sandbox is doing. It knows nothing of the host beyond the control channel, trusts no request
 * without its token, and survives whatever a request or a process does.
 *
 *   front-door.ts   the order of checks on every request        rpc/          Connect calls
 *   process/        processes, their listeners and terminals    filesystem/   calls about files, and watching
 *   files/          contents of files: upload, download         tree/         changes and walks of the file tree
 *   users/          users, tokens, paths, settings              system/       the sandbox's kernel and C library
 *   journal/        what happened, for the sandbox's log        programs/     what the host starts for templates
 *
 * What every boot needs is small (daemon.ts). The Connect services (calls.ts) and file transfers
 * (file-requests.ts) are loaded by the first request for them.
 *
 * The same binary is a handful of programs, which the host starts inside a sandbox while it builds a template.
 */
import { runDaemon } from "./daemon.ts";
import { logError } from "./system/log.ts";

/**
 * The daemon is a part of this file, since every boot runs it, and what is loaded later takes longer; the daemon needs
 * nothing of a program.
 */
async function main([program, request = ""]: string[]): Promise<void> {
  if (program === undefined) {
    runDaemon();
    return;
  }
  const { runProgram } = await import("./programs/programs.ts");
  process.exit(await runProgram(program, request));
}

main(process.argv.slice(2)).catch((thrown: unknown) => {
  // A guest that does not listen is of no use: let init start another one.
  logError("the guest could not start", thrown);
  process.exit(1);
});
