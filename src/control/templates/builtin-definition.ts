/** What control has to know of a template that comes with Sandlot; how its root filesystem is made is the host's. */
import type { StartCommand } from "../../contract/internal/host.ts";

export interface BuiltinDefinition {
  /** Of its row, the same on every server. */
  id: string;
  name: string;
  start: StartCommand | null;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
  /** Named by all that goes into it; a tag of its builds. Not known until somebody asks, because that takes reading. */
  version(): string;
  /** Whether the root filesystem of this name is on the machine, of whatever version. */
  hasImage(image: string): boolean;
  /** The id of the first build of this version on any server. */
  firstBuild(): string;
}
