/** What a server leaves on the machine until `sandlot down`. */
import { existsSync } from "node:fs";

const CGROUPS = "/sys/fs/cgroup";

/** The run folder and the cgroups of the server with this tag. */
export function remainsOf(tag: string): string[] {
  const folder = `/run/sandlot/${tag}`;
  const names = new Bun.Glob(`{*/,}{sandlot,sandlot-edge}/${tag}`).scanSync({ cwd: CGROUPS, onlyFiles: false });
  return [...(existsSync(folder) ? [folder] : []), ...names];
}
