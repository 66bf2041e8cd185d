/** The `sandlot` command: runs what commands.ts finds, and turns failures into a message and an exit code. */
import { Fault } from "../contract/fault.ts";
import { runCommand } from "./commands.ts";

// The code sets every file mode itself; the umask of the caller must not change them.
process.umask(0o022);

try {
  process.exit(await runCommand(process.argv.slice(2)));
} catch (thrown) {
  if (thrown instanceof Fault) console.error(`sandlot: ${causes(thrown)}`);
  else console.error(thrown);
  process.exit(1);
}

/** The message with what lies behind it: here the reader is the operator. */
function causes(fault: Fault): string {
  const parts = [fault.message];
  for (let cause = fault.cause; cause instanceof Error; cause = cause.cause) parts.push(cause.message);
  return parts.join("\n  because: ");
}
