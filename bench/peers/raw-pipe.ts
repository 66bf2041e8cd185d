/** The floor of a process's output: a real pipe on the host with only a reader at its end. */
import { closeSync, constants, openSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../../src/contract/fault.ts";
import { MINIMAL_ENV, run } from "../../src/system/command.ts";
import type { Context } from "../context.ts";

/** Returns the number of bytes. A named pipe, because Bun's own pipes are sockets. */
export async function readThroughPipe({ data }: Context, argv: string[]): Promise<number> {
  const path = join(data.runFolder, "bench-pipe");
  await run(["mkfifo", path]);
  try {
    const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const writeEnd = openSync(path, constants.O_WRONLY);
    const child = Bun.spawn(argv, { stdio: ["ignore", writeEnd, "inherit"], env: { ...MINIMAL_ENV } });
    closeSync(writeEnd);
    let bytes = 0;
    for await (const chunk of Bun.file(readEnd).stream()) bytes += chunk.length;
    closeSync(readEnd);
    if ((await child.exited) !== 0) throw new Fault(500, `${argv.join(" ")} ended with ${child.exitCode}`);
    return bytes;
  } finally {
    await rm(path, { force: true });
  }
}
