/** Runs a peer's program without pipes or a shell, so that only its process is timed. */
import { Fault } from "../../src/contract/fault.ts";
import { MINIMAL_ENV } from "../../src/system/command.ts";

const PROGRAM_MS = 20_000;
const MICROSECONDS_OF_MS = 1000;

/** Runs a program that must succeed; it inherits stderr. Returns its processor time in milliseconds. */
export async function runBare(argv: string[]): Promise<number> {
  const child = Bun.spawn(argv, {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...MINIMAL_ENV },
    timeout: PROGRAM_MS,
    killSignal: "SIGKILL",
  });
  const exitCode = await child.exited;
  if (exitCode !== 0) throw new Fault(500, `${argv.join(" ")} ended with ${child.signalCode ?? exitCode}`);
  return Number(child.resourceUsage()?.cpuTime.total ?? 0) / MICROSECONDS_OF_MS;
}
