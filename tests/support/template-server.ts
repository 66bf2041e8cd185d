/**
 * One server for all files of a run that use a built-in template: it builds the template, including its start command,
 * and the first file waits for that. After each file its leftovers are removed.
 */
import type { TestServer } from "./server.ts";
import { serverShared } from "./shared-server.ts";

/** The root filesystem is in the cache by then, but a busy machine is slow all the same. */
const BUILT_WITHIN_MS = 600_000;

export function templateServer(name: string): () => TestServer {
  // No ready sandboxes: one such server may run beside each concurrent file.
  const settings = { SANDLOT_WITH: name, SANDLOT_READY: "0" };
  const server = serverShared({ name, settings, readyMs: BUILT_WITHIN_MS });
  return () => {
    const { output } = server();
    if (output().includes("could not be built")) throw new Error(`the template ${name} is not there:\n${output()}`);
    return server();
  };
}
