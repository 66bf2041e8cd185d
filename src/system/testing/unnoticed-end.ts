/** A program that ends while this process is stalled, as on an overloaded machine. */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startTicks } from "../start-ticks.ts";

const LOOK_EVERY_MS = 5;

/** The program begins with the shell line `wait`, and `endUnnoticed` lets it go on. */
export function unnoticedEnd(folder: string) {
  const [pidFile, goFile] = [join(folder, "waiting-pid"), join(folder, "go")];
  for (const file of [pidFile, goFile]) rmSync(file, { force: true });
  const hasEnded = () => {
    const pid = existsSync(pidFile) ? readFileSync(pidFile, "utf8") : "";
    return pid.endsWith("\n") && startTicks(Number(pid)) === undefined;
  };
  return {
    wait: `echo $$ > '${pidFile}'; until [ -e '${goFile}' ]; do sleep 0.01; done`,
    /** Blocks this process for `ms`, and until the program has ended. */
    endUnnoticed(ms: number): void {
      const earliest = performance.now() + ms;
      writeFileSync(goFile, "");
      while (performance.now() < earliest || !hasEnded()) Bun.sleepSync(LOOK_EVERY_MS);
    },
  };
}
