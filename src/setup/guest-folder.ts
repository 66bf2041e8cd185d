/**
 * The folder that is mounted read-only into every sandbox: the compiled guest with its own loader and libraries, so
 * that it runs in any image (Debian, Alpine, one without a shell), and the init that is pid 1.
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
import { makeWhole, type SetupStep } from "./step.ts";

const PROJECT = join(import.meta.dir, "../..");
const COMPILER = join(import.meta.dir, "compile-guest-program.ts");
const COMPILE_MS = scaled(120_000);
const LIBRARIES = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libcap-ng.so.0"];

/** A short name: its path must fit where a program has that of its own loader. */
const LOADER = "ld.so";

/** For the guest's engine alone: a hundred guests that nobody uses take less than a hundredth of a processor. */
const ENGINE_OPTIONS = [
  // No stock of memory that a thread has made resident ahead of its use: it is half a mebibyte in every sandbox, and
  // where no process can be started any more, the start of that thread would be the end of the guest.
  "BUN_JSC_useWarmUpMarkedBlocks=0",
  // No thread that helps to collect: the guest has little to collect, and every boot does it once.
  "BUN_JSC_numberOfGCMarkers=1",
  // Only when enough was taken. By the clock, what has stood still in the ready pool would collect first when it is let
  // go, and somebody waits for it by then; and whenever a little was taken, every boot would. The guest does it itself,
  // a while after it was asked for something.
  "BUN_GC_TIMER_DISABLE=1",
  // Else every look at a clock wakes a thread that has nothing to give back.
  "MIMALLOC_PURGE_HOLES_MIN_INTERVAL=60000",
  // Since 2.43, glibc on arm64 takes 2 MiB at once for each thread that asks it for memory, and two that come with the
  // first command do.
  "GLIBC_TUNABLES=glibc.malloc.hugetlb=0",
].join(" ");

/**
 * Keeps the guest alive: when it ends, for whatever reason, it is back within a second, and at once when it ended to be
 * renewed. If it did not mean to end, it may have been for lack of memory that processes hold which have lowered their
 * scores to its own: all but the first one and this shell get the highest score again, or it would be the next as well.
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

/** Named by what goes into it, so that a changed guest gets a new folder and running sandboxes keep theirs. */
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
      makeWhole(target, async (folder) => {
        const bin = join(folder, "bin");
        const lib = join(folder, "lib");
        for (const name of HIDDEN_IN_PROC) await mkdir(join(folder, "empty", name), { recursive: true });
        for (const name of EMPTY_IN_PROC) await writeFile(join(folder, "empty", name), "", { mode: 0o444 });
        // The /sys of every sandbox: places for what is shown in it.
        for (const path of ["devices/system/cpu", "devices/system/node", "fs/cgroup", "class/net"]) {
          await mkdir(join(folder, "sys", path), { recursive: true });
        }
        // The place for each sandbox's own.
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
        await run(compiler, { timeoutMs: COMPILE_MS, cwd: PROJECT });
        for (const name of await readdir(bin)) await chmod(join(bin, name), 0o755);
      }),
  };
}

/** Points a program at the loader and libraries in the guest folder, at the place where every sandbox sees it. */
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

/** Links lead elsewhere outside of the folder that they were made for, so it is the file that is copied. */
async function copyReadable(from: string, to: string): Promise<void> {
  await writeFile(to, await readFile(from), { mode: 0o755 });
}

async function busybox(toolbox: Toolbox): Promise<string> {
  const merged = join(toolbox.toolFolder, "usr/bin/busybox");
  return existsSync(merged) ? merged : join(toolbox.toolFolder, "bin/busybox");
}
