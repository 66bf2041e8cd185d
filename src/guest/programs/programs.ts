/**
 * Programs inside the guest binary that the host runs in a sandbox while it builds a template (contract:
 * guest-programs.ts). Each is loaded when it runs, so the daemon, which is the same binary, holds none of them in
 * memory.
 */
import { errorMessage } from "../../base/error-message.ts";
import { Fault } from "../../contract/fault.ts";
import { GUEST_MOUNT, type GuestProgramName } from "../../contract/runtime/guest-programs.ts";
import { boundedMessage, quote } from "../system/quote.ts";

/** Returns the lines for stdout. */
type Program = (request: never) => Promise<string[]> | string[];

const PROGRAMS: Record<GuestProgramName, () => Promise<Program>> = {
  unpack: async () => (await import("./unpack.ts")).unpack,
  provision: async () => (await import("./provision.ts")).provision,
  "add-user": async () => (await import("./add-user.ts")).addUser,
};

/** Programs that overwrite account and network files of the root they run in. */
const MAKES_ACCOUNTS: ReadonlySet<string> = new Set<GuestProgramName>(["provision", "add-user"]);

export async function runProgram(name: string, request: string): Promise<number> {
  try {
    if (!Object.hasOwn(PROGRAMS, name)) throw new Fault(400, `there is no program ${quote(name)} in the guest`);
    if (MAKES_ACCOUNTS.has(name)) requireSandbox();
    process.umask(0o022);
    const program = await PROGRAMS[name as GuestProgramName]();
    for (const line of await program(parse(request))) process.stdout.write(`${line}\n`);
    return 0;
  } catch (thrown) {
    process.stderr.write(`${oneLine(thrown)}\n`);
    return 1;
  }
}

/** Outside a sandbox these programs would overwrite the machine's own files. */
function requireSandbox(): void {
  if (process.execPath.startsWith(`${GUEST_MOUNT}/`)) return;
  throw new Fault(500, `this runs in a sandbox alone, where the guest is below ${GUEST_MOUNT}`);
}

function parse(request: string): never {
  try {
    return JSON.parse(request) as never;
  } catch (cause) {
    throw new Fault(400, "the request of the program is not JSON", { cause });
  }
}

function oneLine(thrown: unknown): string {
  const message = errorMessage(thrown);
  return boundedMessage(message.replaceAll(/\s+/g, " "));
}
