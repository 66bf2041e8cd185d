/** Programs that listen inside a sandbox, for tests that reach them from outside. */
import { join } from "node:path";
import type { CommandHandle, Sandbox } from "e2b";

/** Starts `command` and waits for its first word: each of these speaks once it listens. */
export async function startListening(sandbox: Sandbox, command: string): Promise<CommandHandle> {
  const listening = Promise.withResolvers<void>();
  const handle = await sandbox.commands.run(command, {
    background: true,
    timeoutMs: 0,
    onStdout: () => listening.resolve(),
  });
  const ended = handle.wait().then(
    () => listening.reject(new Error(`ended before it listened: ${command}`)),
    (error: unknown) => listening.reject(error),
  );
  await Promise.race([listening.promise, ended]);
  return handle;
}

type Program = "web-service" | "websocket-echo" | "flood-service";

/** One of the programs in `services/`, on `port` of `host`. */
export async function startService(sandbox: Sandbox, program: Program, port: number, host = "0.0.0.0", niceness = 0) {
  const file = `/tmp/${program}.cjs`;
  await sandbox.files.write(file, await Bun.file(join(import.meta.dir, `services/${program}.cjs`)).text());
  return await startListening(sandbox, `exec nice -n ${niceness} node ${file} ${port} ${host}`);
}
