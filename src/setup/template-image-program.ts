/**
 * Makes the root filesystem of the template in its argument and reports progress as lines of JSON. It leads a session,
 * and at the end of its standard input it ends together with all its child processes.
 */
import { writeSync } from "node:fs";
import { Fault } from "../contract/fault.ts";
import { makeSteps } from "./setup.ts";
import { templateImageSteps } from "./template-image.ts";
import type { ImageTask, ProgramOutput } from "./template-images.ts";

function say(word: ProgramOutput): void {
  writeSync(process.stdout.fd, `${JSON.stringify(word)}\n`);
}

async function endWithInput(): Promise<void> {
  for await (const _ of Bun.stdin.stream());
  process.kill(-process.pid, "SIGKILL");
}

process.umask(0o022);
void endWithInput();
try {
  const { cacheFolder, debianMirror, definition } = JSON.parse(process.argv[2] ?? "") as ImageTask;
  const steps = templateImageSteps(cacheFolder, debianMirror ?? undefined, definition).map((step) => () => step);
  await makeSteps(cacheFolder, steps, ({ kind, text }) => {
    if (kind === "begin") say({ kind: "line", text: `Making ${text}` });
    else if (kind !== "end") say({ kind: "line", text });
  });
  process.exit(0);
} catch (thrown) {
  const { status, message } = thrown instanceof Fault ? thrown : new Fault(500, String(thrown));
  say({ kind: "failed", text: message, status });
  process.exit(1);
}
