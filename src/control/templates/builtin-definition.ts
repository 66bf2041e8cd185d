/** What control needs to know of a built-in template. The host makes its root filesystem. */
import type { StartCommand } from "../../contract/internal/host.ts";

export interface BuiltinDefinition {
  /** Id of its row, the same on every server. */
  id: string;
  name: string;
  start: StartCommand | null;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
  /** Derived from everything that goes into it; a tag of its builds. Computed on demand, because that reads files. */
  version(): string;
  /** Whether this root filesystem, of any version, is on the machine. */
  hasImage(image: string): boolean;
  /** Id of the first build of this version, the same on every server. */
  firstBuild(): string;
}
