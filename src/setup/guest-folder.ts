/**
 * Makes the folder that every sandbox mounts read-only: the compiled guest with its own loader and libraries, so that
 * it runs in any image (Debian, Alpine, one without a shell), and the init that is pid 1.
 */
import { existsSync, readFileSync } from "node:fs";
import { chmod, copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { scaled } from "../base/time-factor.ts";
import { CONTROL_SECRET_FILE } from "../contract/runtime/guest-control.ts";
import { GUEST_MOUNT } from "../contract/runtime/guest-programs.ts";
import { chooseGuest, guestFolderNamed } from "../images/guest-folders.ts";
import { EMPTY_IN_PROC, HIDDEN_IN_PROC } from "../images/guest-layout.ts";
import { run } from "../system/command.ts";
import { architecture, type Toolbox } from "../system/toolbox.ts";
import { guestSources, sourcesOf } from "./guest-sources.ts";
import { makeAtomically, type SetupStep } from "./step.ts";

const PROJECT = join(import.meta.dir, "../..");
const COMPILER = join(import.meta.dir, "compile-guest-program.ts");
const COMPILE_MS = scaled(120_000);
const LIBRARIES = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libcap-ng.so.0"];

/** A short name: its path must fit into the place of a program's original interpreter path. */
const LOADER = "ld.so";

/** Settings of the guest's engine: a hundred idle guests use less than a hundredth of a processor. */
const ENGINE_OPTIONS = [
  // No preallocated memory: it takes half a mebibyte in every sandbox, and if the sandbox has reached its process
  // limit, failing to start the allocating thread would end the guest.
  "BUN_JSC_useWarmUpMarkedBlocks=0",
  // No helper threads for garbage collection: the guest has little garbage, and every boot collects once.
  "BUN_JSC_numberOfGCMarkers=1",
  // Collect by allocation, not by time. With the timer, a sandbox from the ready pool would collect as soon as it is
  // unfrozen, while a client waits; and with a low threshold every boot would. The guest triggers a collection itself,
  // a while after a request.
  "BUN_GC_TIMER_DISABLE=1",
  // Otherwise each clock read wakes a thread that has nothing to release.
  "MIMALLOC_PURGE_HOLES_MIN_INTERVAL=60000",
  // The allocator chooses a random address for its memory, but not for a reservation above 1 GiB. In sandboxes that
  // share memory, the kernel then places the heaps of all guests alike, and more than half of their pages are equal.
  "MIMALLOC_ARENA_RESERVE=2GiB",
  // Since 2.43, glibc on arm64 allocates 2 MiB at once for each thread that uses malloc, and the first command brings
  // two such threads.
  "GLIBC_TUNABLES=glibc.malloc.hugetlb=0",
].join(" ");

/**
 * Restarts the guest: within a second after any exit, at once after an exit to be renewed. After an unexpected exit the
 * cause may be memory held by processes that lowered their OOM score to the guest's. All processes but the first one
 * and this shell get the highest score again, otherwise the new guest would be killed as well.
 */
const KEEP_GUEST = [
  "while :; do",
  `  LD_LIBRARY_PATH=${GUEST_MOUNT}/lib ${ENGINE_OPTIONS} ${GUEST_MOUNT}/bin/guest && continue`,
  `  ${GUEST_MOUNT}/bin/busybox sleep 0.2`,
  "  for score in /proc/[0-9]*/oom_score_adj; do",
  "    case $score in /proc/1/*|/proc/$$/*) continue ;; esac",
  "    echo 1000 > $score",
  "  done 2> /dev/null",
  "done\n",
].join("\n");

/** The name is a hash of its sources, so that a changed guest gets a new folder and running sandboxes keep theirs. */
export function guestFolder(toolbox: Toolbox): string {
  const hash = new Bun.CryptoHasher("sha256");
  const { files, packages } = guestSources(PROJECT);
  for (const file of [...files, ...sourcesOf(PROJECT, relative(PROJECT, COMPILER)).files])
    hash.update(relative(PROJECT, file)).update(readFileSync(file));
  hash
    .update(packages.join())
    .update(Bun.version)
    .update(toolbox.toolFolder)
    .update([...HIDDEN_IN_PROC, "", ...EMPTY_IN_PROC].join())
    .update(readFileSync(import.meta.path));
  return guestFolderNamed(toolbox.cacheFolder, hash.digest("hex").slice(0, 16));
}

export function guestFolderStep(toolbox: Toolbox): SetupStep {
  const target = guestFolder(toolbox);
  return {
    title: "the guest daemon",
    done: () => chooseGuest(target),
    make: (progress) =>
      makeAtomically(target, async (folder) => {
        const bin = join(folder, "bin");
        const lib = join(folder, "lib");
        for (const name of HIDDEN_IN_PROC) await mkdir(join(folder, "empty", name), { recursive: true });
        for (const name of EMPTY_IN_PROC) await writeFile(join(folder, "empty", name), "", { mode: 0o444 });
        // Mount points in the /sys of every sandbox.
        for (const path of ["devices/system/cpu", "devices/system/node", "fs/cgroup", "class/net"]) {
          await mkdir(join(folder, "sys", path), { recursive: true });
        }
        // Mount point of each sandbox's own secret.
        await writeFile(join(folder, basename(CONTROL_SECRET_FILE)), "", { mode: 0o444 });
        await mkdir(bin);
        await mkdir(lib);
        for (const name of LIBRARIES) await copyReadable(join(toolbox.libraries, name), join(lib, name));
        await copyReadable(join(toolbox.libraries, architecture().loader), join(lib, LOADER));
        await copyFile(join(toolbox.toolFolder, "usr/bin/catatonit"), join(bin, "init"));
        await copyFile(await busybox(toolbox), join(bin, "busybox"));
        await copyFile(join(toolbox.toolFolder, "usr/bin/setpriv"), join(bin, "setpriv"));
        await writeFile(join(bin, "keep-guest"), KEEP_GUEST);
        await relink(join(bin, "setpriv"));

        progress("compiling");
        const compiler = [process.execPath, COMPILER, join(bin, "guest"), `${GUEST_MOUNT}/lib/${LOADER}`];
        await run(compiler, { timeoutMs: COMPILE_MS, cwd: folder });
        for (const name of await readdir(bin)) await chmod(join(bin, name), 0o755);
      }),
  };
}

/** Points a program at the loader and libraries of the guest folder, by the path that every sandbox sees. */
async function relink(program: string): Promise<void> {
  await run([
    "patchelf",
    "--set-interpreter",
    `${GUEST_MOUNT}/lib/${LOADER}`,
    "--set-rpath",
    `${GUEST_MOUNT}/lib`,
    program,
  ]);
}

/** Copies the file behind a link, because the link would not resolve in the new folder. */
async function copyReadable(from: string, to: string): Promise<void> {
  await writeFile(to, await readFile(from), { mode: 0o755 });
}

async function busybox(toolbox: Toolbox): Promise<string> {
  const merged = join(toolbox.toolFolder, "usr/bin/busybox");
  return existsSync(merged) ? merged : join(toolbox.toolFolder, "bin/busybox");
}
