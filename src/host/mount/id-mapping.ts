/**
 * How owners on a disk become owners on the machine: by a user namespace that is given to a mount. No process lives in
 * it; it is nothing but the table of ids, and a descriptor keeps it.
 */
import { openSync, writeFileSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { described, type Log, stderrLog } from "../../work/log.ts";
import { ID_NAMESPACE_MS } from "../limits.ts";
import { cannotStart, MINIMAL_ENV } from "../system/command.ts";
import { HOST_ROOT_ON_DISK, ID_COUNT } from "../system/id-range.ts";

/** Tables of ids, one for each range that sandboxes have. They stay open until this process ends. */
export class IdMappings {
  readonly #made = new Map<number, Promise<number | undefined>>();

  constructor(
    readonly open: (first: number) => Promise<number> = openMapping,
    readonly log: Log = stderrLog,
  ) {}

  /**
   * By which plain ids become those from `first` on. Undefined when it cannot be made, which the log tells; whoever
   * asks next tries again, because a machine without user namespaces has no sandboxes at all.
   */
  of(first: number): Promise<number | undefined> {
    let mapping = this.#made.get(first);
    if (mapping === undefined) {
      mapping = this.open(first).catch((error) => {
        this.#made.delete(first);
        this.log.write({ level: "error", event: "no table of ids could be made", error: described(error) });
        return undefined;
      });
      this.#made.set(first, mapping);
    }
    return mapping;
  }
}

/** The descriptor of a namespace in which 0–65535 are the ids from `first` on, and one more is the machine's root. */
async function openMapping(first: number): Promise<number> {
  const child = startInNamespace();
  const timer = setTimeout(() => child.kill("SIGKILL"), ID_NAMESPACE_MS);
  try {
    // It answers from inside the namespace.
    child.stdin.write("?");
    await child.stdin.flush();
    const { done } = await child.stdout.getReader().read();
    if (done) throw new Fault(500, "a user namespace could not be made");
    // Without the machine's root among them an overlay could not make its own folders on the disk.
    const table = `0 ${first} ${ID_COUNT}\n${HOST_ROOT_ON_DISK} 0 1\n`;
    for (const kind of ["uid", "gid"]) writeFileSync(`/proc/${child.pid}/${kind}_map`, table);
    return openSync(`/proc/${child.pid}/ns/user`, "r");
  } finally {
    clearTimeout(timer);
    child.kill("SIGKILL");
    await child.exited;
  }
}

function startInNamespace() {
  try {
    return Bun.spawn(["unshare", "--user", "--", "cat"], {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "ignore",
      env: { ...MINIMAL_ENV },
    });
  } catch (cause) {
    throw cannotStart("unshare", cause);
  }
}
