/** File systems that cannot be watched: network ones hide remote changes, pseudo ones such as /proc all changes. */
import { realpath, statfs } from "node:fs/promises";
import { readMounts } from "../../system/mount-table.ts";
import { quote } from "../../system/quote.ts";
import { refuse } from "../../system/rpc-fault.ts";

/** Network filesystems by the type that statfs returns. */
const NETWORK_TYPES: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0xff534d42, "CIFS"],
  [0x517b, "SMB"],
  [0xfe534d42, "SMB2"],
  [0x65735546, "FUSE"],
]);

/** Network filesystems by the name in the mount table. */
const NETWORK_NAME = /^(?:nfs4?|cifs|smb3|smbfs|fuse|fuseblk|fuse\..+)$/;
const PSEUDO_NAME =
  /^(?:proc|sysfs|cgroup2?|devpts|mqueue|debugfs|tracefs|securityfs|bpf|configfs|pstore|binfmt_misc)$/;

/** The name of a network file system's type; undefined for all others. */
export function networkTypeName(type: number): string | undefined {
  return NETWORK_TYPES.get(type >>> 0);
}

export async function refuseNetworkMount(path: string): Promise<void> {
  const name = networkTypeName((await statfs(path)).type);
  if (name === undefined) return;
  throw refuse(
    "invalid_argument",
    `${quote(path)} is on a network file system (${name}), where changes made elsewhere go unnoticed; ` +
      "set allow_network_mounts to watch it anyway",
  );
}

/** Mount points below a directory that a recursive watch skips, as paths that begin with `base`. */
export async function mountsLeftOut(base: string, withNetwork: boolean): Promise<Set<string>> {
  const real = withSlash(await realpath(base));
  const points = (await readMounts())
    .filter(({ type }) => PSEUDO_NAME.test(type) || (!withNetwork && NETWORK_NAME.test(type)))
    .filter(({ point }) => point.startsWith(real));
  return new Set(points.map(({ point }) => withSlash(base) + point.slice(real.length)));
}

function withSlash(path: string): string {
  return path.endsWith("/") ? path : `${path}/`;
}
