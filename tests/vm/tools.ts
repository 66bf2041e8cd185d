/** The programs of the machine that `npm run vm` needs. */
import { Fault } from "../../src/contract/fault.ts";
import { missingCommands } from "../../src/setup/packages.ts";
import { ARCHITECTURE } from "./systems.ts";

const TOOLS = {
  [ARCHITECTURE.qemu]: ARCHITECTURE.qemuPackage,
  "qemu-img": "qemu-utils",
  mmdebstrap: "mmdebstrap",
  "mkfs.ext4": "e2fsprogs",
  cpio: "cpio",
  xz: "xz-utils",
  ssh: "openssh-client",
  "ssh-keygen": "openssh-client",
};

export function requireTools(): void {
  if (process.getuid?.() !== 0) throw new Fault(403, "this needs root. FIX: sudo npm run vm -- SYSTEM");
  const missing = missingCommands(TOOLS);
  if (missing.length === 0) return;
  const packages = [...new Set(missing.map((name) => (TOOLS as Record<string, string>)[name] ?? name))].join(" ");
  throw new Fault(
    500,
    `these programs are missing: ${missing.join(", ")}. FIX: apt-get install --no-install-recommends ${packages}`,
  );
}
