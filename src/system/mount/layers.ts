/** Mounts the layers of a sandbox's root. Runs on the worker's thread. */
import { chownSync, mkdirSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { readText } from "../data-folder.ts";
import { HOST_ROOT_ON_DISK, type IdForm } from "../id-range.ts";
import { MOUNT_ATTR_NODEV, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY, mapInPlace, showAt } from "../mount-calls.ts";
import {
  attributeOf,
  detachMount,
  MS_BIND,
  MS_NOATIME,
  MS_NODEV,
  MS_NOSUID,
  MS_RDONLY,
  MS_REMOUNT,
  mount,
  withLoopDevice,
} from "../syscalls.ts";
import { IdMappings, isMappedAlready, withTenantsMapping } from "./id-mapping.ts";
import type { EtcFiles, Lower, MountJob, OverlayJob } from "./mount-job.ts";
import { mountPoints } from "./mount-namespace.ts";

/** For checkpoints of inotify watches (index, nfs_export) and renames of image folders (redirect_dir). */
const OVERLAY_OPTIONS = ["index", "nfs_export", "redirect_dir"];

/** Only overlays read layers. Programs run from the root above, which has its own flags. */
const LAYER_ATTRIBUTES = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

/** A disk shows the form of its ids by the owner of a folder that only overlays write to: no tenant can change it. */
export function formOf(disk: string): IdForm {
  return statSync(join(disk, "work")).uid === HOST_ROOT_ON_DISK ? "plain" : "shifted";
}

/**
 * An overlay records for each changed file its number of names, relative to those on the disk, one of which is in the
 * index. "U-1" means that all the others are on the disk.
 */
export function lacksNames({ index, names }: Extract<MountJob, { kind: "lacks-names" }>): boolean {
  return names.some((name) => (attributeOf(join(index, name), "trusted.overlay.nlink") ?? "U-1") !== "U-1");
}

export function mountDisk({ image, target, options, firstId, etc }: Extract<MountJob, { kind: "disk" }>): void {
  withLoopDevice(image, (device) => mount(device, target, "ext4", MS_NODEV | MS_NOSUID | MS_NOATIME, options));
  try {
    const form = formOf(target);
    const mappings = new IdMappings(firstId);
    if (!isMappedAlready(form, firstId)) mapInPlace(target, LAYER_ATTRIBUTES, mappings.of(form));
    if (etc !== undefined) writeEtc(join(target, "upper/etc"), etc);
  } catch (cause) {
    detachIfMounted(target);
    throw cause;
  }
}

/** The disk is new, so no tenant file can be in the way. */
function writeEtc(folder: string, { owner, files }: EtcFiles): void {
  mkdirSync(folder, { mode: 0o755 });
  chownSync(folder, owner, owner);
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, name);
    writeFileSync(path, content, { mode: 0o644 });
    chownSync(path, owner, owner);
  }
}

/** Last one first: it may be mounted on another. */
export function release({ folder, places, mounted }: Extract<MountJob, { kind: "release" }>): void {
  const below = mounted ?? mountPoints().filter((path) => path.startsWith(`${folder}/`));
  for (const target of below.toReversed()) detachMount(target);
  for (const name of places) rmSync(join(folder, name), { recursive: true, force: true });
}

/** The new mount inherits the attributes of the source mount. */
export function mapFolder({ source, target, firstId }: Extract<MountJob, { kind: "map" }>): void {
  withTenantsMapping("shifted", firstId, (users) => showAt(source, target, 0n, users));
}

export function showImage({ source, target, firstId, files }: Extract<MountJob, { kind: "image" }>): void {
  const mappings = new IdMappings(firstId);
  showLower({ folder: source, ids: "shifted" }, target, mappings);
  try {
    for (const [name, path] of Object.entries(files)) mount(path, join(target, name), "none", MS_BIND, "");
  } catch (cause) {
    detachIfMounted(target);
    throw cause;
  }
}

/** A lower that must be mapped, or one of many, is mounted in `folder` first: mount(2) bounds the paths. */
export function mountOverlay({ target, disk, lowers, folder, firstId }: OverlayJob): void {
  const shown: string[] = [];
  const mappings = new IdMappings(firstId);
  try {
    const paths = lowers.map((lower, index) => {
      if (lowers.length === 1 && isMappedAlready(lower.ids, firstId)) return lower.folder;
      const path = join(folder, `lower-${index}`);
      mkdirSync(path, { mode: 0o700 });
      shown.push(path);
      showLower(lower, path, mappings);
      return path;
    });
    const layers = [`lowerdir=${paths.join(":")}`, `upperdir=${disk}/upper`, `workdir=${disk}/work`];
    mount(
      "overlay",
      target,
      "overlay",
      MS_NODEV,
      [...layers, ...OVERLAY_OPTIONS.map((name) => `${name}=on`)].join(","),
    );
    requireWhole(target);
  } finally {
    for (const path of shown) {
      detachIfMounted(path);
      rmdirSync(path);
    }
  }
}

function showLower({ folder, ids }: Lower, path: string, mappings: IdMappings): void {
  if (!isMappedAlready(ids, mappings.first)) {
    showAt(folder, path, LAYER_ATTRIBUTES | MOUNT_ATTR_RDONLY, mappings.of(ids));
    return;
  }
  // For kernels without id-mapped mounts. The first call ignores attributes, so a remount sets them.
  mount(folder, path, "none", MS_BIND, "");
  mount(folder, path, "none", MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, "");
}

/** The kernel may mount the overlay read-only or without an option, and the sandbox would fail later. */
function requireWhole(target: string): void {
  const line = readFileSync("/proc/thread-self/mountinfo", "utf8")
    .split("\n")
    .findLast((each) => each.split(" ")[4] === target);
  const shown = new Set(line?.split(" ").at(-1)?.split(","));
  const lacks = OVERLAY_OPTIONS.filter((name) => !isOn(name, shown));
  if (!shown.has("rw")) lacks.push("rw");
  if (lacks.length === 0) return;
  detachMount(target);
  throw new Fault(500, `the kernel mounted a sandbox's root without ${lacks.join(", ")}; its log may say why`);
}

/** The kernel shows an option only if it differs from the module's default. */
function isOn(name: string, shown: ReadonlySet<string>): boolean {
  if (shown.has(`${name}=on`)) return true;
  return !shown.has(`${name}=off`) && readText(`/sys/module/overlay/parameters/${name}`)?.trim() === "Y";
}

/** Ignores a missing mount, because another error is already being reported. */
function detachIfMounted(path: string): void {
  try {
    detachMount(path);
  } catch {
    // The path was not mounted; no other failure is possible.
  }
}
