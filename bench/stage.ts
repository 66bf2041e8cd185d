/**
 * The environment of the benchmark and of `sandlot trace`: a network with only the benchmark's own web sites, a server
 * in it on its own folder, a program that uses that server, and the cleanup of all, also after an interruption.
 */
import { Fault } from "../src/contract/fault.ts";
import { authorityFile, makeOuterNetwork, removeStaleNetworks } from "../src/host/testing/outer-network.ts";
import { BenchServer } from "./bench-server.ts";

const INTERRUPTED = 130;

/** Does not return: exits with the code of `act`, or with the reason of its failure. */
export async function perform(name: string, act: (interrupted: AbortSignal) => Promise<number>): Promise<never> {
  const interruption = new AbortController();
  process.on("SIGINT", () => interruption.abort());
  process.on("SIGTERM", () => interruption.abort());
  try {
    const exitCode = await act(interruption.signal);
    process.exit(interruption.signal.aborted ? INTERRUPTED : exitCode);
  } catch (thrown) {
    if (interruption.signal.aborted) process.exit(INTERRUPTED);
    console.error(thrown instanceof Fault ? `${name}: ${thrown.message}` : thrown);
    process.exit(1);
  }
}

interface Stage {
  cacheFolder: string;
  /** Additional settings of the server. */
  settings?: Record<string, string>;
  /** Runs inside the network and the server's mount namespace. */
  program: string;
  /** The program's input, as JSON on its standard input. */
  taskFor: (server: BenchServer) => object;
}

/** Returns the program's exit code. */
export async function runOnStage(
  { cacheFolder, settings, program, taskFor }: Stage,
  interrupted: AbortSignal,
): Promise<number> {
  await removeStaleNetworks();
  const network = await makeOuterNetwork();
  try {
    await BenchServer.removeStale(network.enter, cacheFolder);
    // The machine trusts the sites of the benchmark's internet.
    const roots = { NODE_EXTRA_CA_CERTS: authorityFile(String(process.pid)) };
    const server = new BenchServer(network.enter, cacheFolder, { ...roots, ...settings });
    try {
      await server.start(interrupted);
      const child = Bun.spawn([...server.enter, process.execPath, program], {
        // Not as an argument, which every user on the host can read.
        stdin: new TextEncoder().encode(JSON.stringify(taskFor(server))),
        stdout: "inherit",
        stderr: "inherit",
        signal: interrupted,
      });
      return await child.exited;
    } finally {
      await server.remove();
    }
  } finally {
    await network.remove();
  }
}
