/**
 * The `sandlot` command: runs what command-line.ts finds, and turns failures into a message and an exit code. This
 * folder parses words and settings and connects the modules; it decides nothing about sandboxes.
 */
import { TIME_FACTOR } from "../base/time-factor.ts";
import { Fault, UncertainOutcome } from "../contract/fault.ts";
import { settingValues } from "./settings/settings.ts";

enterFolderOfCaller();
applyTimeFactor();
const { runCommand } = await import("./command-line.ts");

// The code sets every file mode itself; the caller's umask must not change them.
process.umask(0o022);

try {
  process.exit(await runCommand(process.argv.slice(2)));
} catch (thrown) {
  const shown = thrown instanceof UncertainOutcome ? Fault.from(thrown) : thrown;
  console.error(shown instanceof Fault ? `sandlot: ${causes(shown)}` : shown);
  process.exit(1);
}

/** The message with its causes: here the reader is the operator. */
function causes(fault: Fault): string {
  const parts = [fault.message];
  for (let cause = fault.cause; cause instanceof Error; cause = cause.cause) parts.push(cause.message);
  return parts.join("\n  because: ");
}

/** Paths in arguments are relative to it. Bun itself starts in the project's folder (`bin/bootstrap.mjs`). */
function enterFolderOfCaller(): void {
  const { INIT_CWD: folder } = process.env;
  delete process.env.INIT_CWD;
  if (folder !== undefined) process.chdir(folder);
}

/** Timeouts read the factor from the environment when their modules load. `loadConfig` reports an invalid setting. */
function applyTimeFactor(): void {
  try {
    const factor = settingValues(process.env)("timeFactor");
    if (factor !== undefined) process.env[TIME_FACTOR.variable] = factor;
  } catch {
    // `loadConfig` throws the same error.
  }
}
