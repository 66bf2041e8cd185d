/** Checks which volumes are mounted in a sandbox, and where. A refusal lists every problem of the request. */
import { Fault } from "../../contract/fault.ts";
import type { VolumeMount as HostMount } from "../../contract/internal/host.ts";
import { VOLUME_MOUNT_PATH_MAX_CHARS } from "../../contract/management/limits.ts";
import { quoted } from "../../contract/quoted-text.ts";
import type { Team } from "../../store/people.ts";
import type { VolumeMount } from "../../store/sandboxes.ts";
import type { Tables } from "../../store/store.ts";

interface AskedMount {
  name: string;
  path: string;
}

/** System folders: a mount at or below one would hide files that every program relies on. */
const SYSTEM_TREES = [
  "/.sandlot",
  "/bin",
  "/boot",
  "/dev",
  "/etc",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/proc",
  "/run",
  "/sbin",
  "/sys",
  "/usr/bin",
  "/usr/lib",
  "/usr/libexec",
  "/usr/sbin",
  "/usr/share",
];
/** Folders that cannot be mount points themselves; mounts below them are allowed. */
const SYSTEM_FOLDERS = ["/", "/home", "/root", "/tmp", "/usr", "/usr/local", "/var", "/var/lib", "/var/tmp"];
/** Characters that the checkpoint tools interpret. */
const UNUSABLE = /[\p{Cc}\s[\]:,\\"'`]/u;

/** The team's volumes by the requested names. Fault 400 names every mount that breaks a rule, and the rule. */
export async function findMounts(
  tables: Tables,
  team: Team,
  requested: readonly AskedMount[],
  max: number,
): Promise<VolumeMount[]> {
  if (requested.length > max) {
    throw new Fault(400, `volumeMounts has ${requested.length} entries; a sandbox has at most ${max}`);
  }
  const problems: string[] = [];
  const mounts: VolumeMount[] = [];
  for (const [at, { name, path }] of requested.entries()) {
    const volume = await tables.volumes.byName(team.id, name);
    const before = requested.slice(0, at);
    const wrong = [
      volume === undefined ? `there is no volume ${quoted(name)}` : undefined,
      before.some((other) => other.name === name) ? `volume ${quoted(name)} is mounted twice` : undefined,
      pathProblem(path, before),
    ].filter((problem) => problem !== undefined);
    for (const problem of wrong) problems.push(`[${at}]: ${problem}`);
    if (volume !== undefined) mounts.push({ volumeId: volume.id, name, path });
  }
  if (problems.length > 0) throw new Fault(400, `volumeMounts cannot be used: ${problems.join("; ")}`);
  return mounts;
}

/**
 * Locks the volumes against deletion until the transaction ends. Fault 404 when one is gone, or belongs to another
 * team: a template cannot mount volumes of a foreign team.
 */
export async function requireVolumes(tables: Tables, teamId: string, mounts: readonly VolumeMount[]): Promise<void> {
  for (const { volumeId, name } of mounts) {
    if (await tables.volumes.keep(volumeId, teamId)) continue;
    throw new Fault(404, `volume ${quoted(name)} does not exist any more`);
  }
}

/** The mounts in the host's form. */
export function hostMounts(mounts: readonly VolumeMount[]): HostMount[] {
  return mounts.map(({ volumeId, path }) => ({ volume: volumeId, path }));
}

function pathProblem(path: string, before: readonly AskedMount[]): string | undefined {
  const at = quoted(path);
  if (path === "") return "its path is empty";
  if (!path.startsWith("/")) return `the path ${at} is not absolute`;
  if (path.length > VOLUME_MOUNT_PATH_MAX_CHARS) {
    return `the path ${at} has ${path.length} characters; at most ${VOLUME_MOUNT_PATH_MAX_CHARS} are possible`;
  }
  if (path !== "/" && /\/(?:\.{0,2})(?:\/|$)/.test(path))
    return `the path ${at} is not clean: it has "//", ".", ".." or ends with "/"`;
  if (UNUSABLE.test(path))
    return `the path ${at} has spaces, control characters, quotation marks or one of [ ] : , \\ in it`;
  const system = SYSTEM_TREES.find((tree) => isWithin(path, tree)) ?? SYSTEM_FOLDERS.find((folder) => folder === path);
  if (system !== undefined) return `the path ${at} is the system's`;
  if (before.some((other) => other.path === path)) return `the path ${at} is used twice`;
  const around = before.find((other) => isWithin(path, other.path) || isWithin(other.path, path));
  return around === undefined ? undefined : `the paths ${at} and ${quoted(around.path)} lie within each other`;
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
