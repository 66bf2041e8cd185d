/**
 * A small foreign root filesystem in which the guest's programs run as in a sandbox: with the guest folder in its
 * place, a /proc, and nothing else of the machine.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { GUEST_MOUNT, guestProgram } from "../../../src/contract/runtime/guest-programs.ts";
import { guestFolder } from "../../../src/setup/guest-folder.ts";
import { attempt } from "../../../src/system/command.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";
import { CACHE } from "../cache.ts";

const ENTER = [
  `mkdir -p "$0/proc" "$0${GUEST_MOUNT}"`,
  `mount --bind "$1" "$0${GUEST_MOUNT}"`,
  'mount -t proc proc "$0/proc"',
  'root="$0"; shift',
  'exec chroot "$root" "$@"',
].join("; ");

export class ForeignRoot implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "sandlot-root-"));

  /** Files by their paths, with their contents. */
  constructor(files: Record<string, string> = {}) {
    for (const [path, text] of Object.entries(files)) this.write(path, text);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }

  write(path: string, text: string, mode = 0o644): void {
    mkdirSync(dirname(join(this.path, path)), { recursive: true });
    writeFileSync(join(this.path, path), text, { mode });
  }

  read(path: string): string {
    return readFileSync(join(this.path, path), "utf8");
  }

  has(path: string): boolean {
    return existsSync(join(this.path, path));
  }

  /** As in Alpine: one program with many names. */
  addBusybox(names: readonly string[]): void {
    mkdirSync(join(this.path, "bin"), { recursive: true });
    cpSync(join(guestFolder(new Toolbox(CACHE)), "bin/busybox"), join(this.path, "bin/busybox"));
    for (const name of names) symlinkSync("busybox", join(this.path, "bin", name));
  }

  async run(...[name, request]: Parameters<typeof guestProgram>) {
    const { cmd, args, envs } = guestProgram(name, request);
    const variables = Object.entries(envs).map(([key, value]) => `${key}=${value}`);
    return await this.enter([`${GUEST_MOUNT}/bin/busybox`, "env", "-i", ...variables, cmd, ...args]);
  }

  /** Runs a program of this root. */
  async enter(command: readonly string[]) {
    const unshared = ["unshare", "--mount", "--propagation=private", "sh", "-ec", ENTER];
    return await attempt([...unshared, this.path, guestFolder(new Toolbox(CACHE)), ...command]);
  }
}
