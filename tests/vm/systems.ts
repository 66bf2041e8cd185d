/** The systems that `npm run vm` can make, and where it keeps them. */
import { join } from "node:path";

export interface System {
  title: string;
  suite: string;
  /** Whether Debian's own Node is old; a newer one then comes from the npm registry. */
  nodeFromNpm: boolean;
}

export const SYSTEMS: Readonly<Record<string, System>> = {
  "debian-12": { title: "Debian 12", suite: "bookworm", nodeFromNpm: true },
  "debian-13": { title: "Debian 13", suite: "trixie", nodeFromNpm: false },
};

interface Architecture {
  debian: string;
  qemu: string;
  qemuPackage: string;
  machine: string;
  cpu: string;
  console: string;
}

const ARCHITECTURES: Readonly<Record<string, Architecture>> = {
  x64: {
    debian: "amd64",
    qemu: "qemu-system-x86_64",
    qemuPackage: "qemu-system-x86",
    machine: "q35",
    cpu: "max,-avx512f",
    console: "ttyS0",
  },
  arm64: {
    debian: "arm64",
    qemu: "qemu-system-aarch64",
    qemuPackage: "qemu-system-arm",
    machine: "virt,gic-version=3",
    cpu: "neoverse-n1",
    console: "ttyAMA0",
  },
};

/** The machine's own: an image is made by running its programs. */
export const ARCHITECTURE: Architecture = ARCHITECTURES[process.arch] ?? (ARCHITECTURES.x64 as Architecture);

/** Everything of one system, such as /var/cache/sandlot-vm/debian-13. Remove it to make the image anew. */
export function filesOf(path: string) {
  const at = (name: string) => join(path, name);
  return {
    path,
    image: at("image.raw"),
    kernel: at("kernel"),
    initrd: at("initrd"),
    /** What the machine changed, and its snapshots. */
    disk: at("disk.qcow2"),
    key: at("key"),
    /** Sandlot and its cache. */
    payload: at("payload.tar"),
    console: at("console"),
    monitor: at("monitor"),
  };
}

export type SystemFiles = ReturnType<typeof filesOf>;
