/**
 * One server for all files of a run that use a built-in template: it builds the template, including its start command,
 * and the first file waits for that. After each file its leftovers are removed.
 */
import type { TestServer } from "./server.ts";
import { serverShared } from "./shared-server.ts";

/** Its root filesystem is in the cache by then; a machine with other work takes its time all the same. */
const BUILT_WITHIN_MS = 300_000;

export function templateServer(name: string): () => TestServer {
  // None is kept ready: there may be one such server beside each file that runs at the same time.
  const settings = { SANDLOT_WITH: name, SANDLOT_READY: "0" };
  const server = serverShared({ name, settings, readyMs: BUILT_WITHIN_MS });
  return () => {
    const { output } = server();
    if (output().includes("could not be built")) throw new Error(`the template ${name} is not there:\n${output()}`);
    return server();
  };
}
