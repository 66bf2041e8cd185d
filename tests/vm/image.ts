/** Makes the disk image of a system: Debian packages and a key for ssh. Sandlot comes later, in the running machine. */
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fetchDebian } from "../../src/setup/fetching.ts";
import { run } from "../../src/system/command.ts";
import { npm } from "../support/npm.ts";
import { ARCHITECTURE, type System, type SystemFiles } from "./systems.ts";

const PACKAGES = `
  linux-image-${ARCHITECTURE.debian} systemd-sysv systemd-resolved dbus kmod apparmor openssh-server sudo procps
  iproute2 nftables ufw python3 git ca-certificates curl busybox-static mmdebstrap btrfs-progs e2fsprogs patchelf
  debian-archive-keyring
`
  .trim()
  .split(/\s+/);

/** Of the kernel, before its own modules can be read from the disk. */
const FIRST_MODULES = `
  crc16 mbcache jbd2 libcrc32c crc32c_generic ext4
  virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk
`
  .trim()
  .split(/\s+/);

/** They take minutes of an emulated processor and change nothing that is tested. */
const SWITCHED_OFF = `
  apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer dpkg-db-backup.timer
  systemd-networkd-wait-online.service
`
  .trim()
  .split(/\s+/);

const NETWORK = "[Match]\nName=en* eth*\n[Network]\nDHCP=yes\n";
const DISK_SIZE = "30G";
const PACKAGES_MS = 3_600_000;
const TOOL_MS = 600_000;
const NODE_VERSION = "20";

export async function makeImage(
  files: SystemFiles,
  system: System,
  options: { mirror: string | undefined; progress: (line: string) => void },
): Promise<void> {
  await mkdir(files.path, { recursive: true, mode: 0o700 });
  await rm(files.key, { force: true });
  await run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", files.key], { timeoutMs: TOOL_MS });
  const root = join(files.path, "root");
  await rm(root, { recursive: true, force: true });
  const packages = system.nodeFromNpm ? PACKAGES : PACKAGES.concat("nodejs");
  const { suite } = system;
  const include = `--include=${packages.join(",")}`;
  await fetchDebian(
    root,
    { suite, mirror: options.mirror, options: ["--variant=important", include], timeoutMs: PACKAGES_MS },
    options.progress,
  );
  if (system.nodeFromNpm) await addNode(root);
  await configure(root, await readFile(`${files.key}.pub`, "utf8"));
  options.progress("writing the disk");
  await makeInitrd(root, files.initrd);
  const kernel = (await readdir(join(root, "boot"))).find((name) => name.startsWith("vmlinuz-"));
  await cp(join(root, "boot", kernel ?? "vmlinuz"), files.kernel);
  const unfinished = `${files.image}.unfinished`;
  await rm(unfinished, { force: true });
  await run(["truncate", "-s", DISK_SIZE, unfinished], { timeoutMs: TOOL_MS });
  await run(["mkfs.ext4", "-q", "-F", "-d", root, unfinished], { timeoutMs: TOOL_MS });
  await rm(root, { recursive: true });
  await rename(unfinished, files.image);
}

async function configure(root: string, key: string): Promise<void> {
  await mkdir(join(root, "root/.ssh"), { recursive: true, mode: 0o700 });
  const files = {
    "root/.ssh/authorized_keys": key,
    "etc/fstab": "/dev/vda / ext4 rw,noatime 0 1\n",
    "etc/hostname": "sandlot-vm\n",
    "etc/hosts": "127.0.0.1 localhost sandlot-vm\n::1 localhost\n",
    "etc/systemd/network/80-dhcp.network": NETWORK,
    // Otherwise the first boot renews caches of the dynamic linker and of users.
    "etc/.updated": "",
    "var/.updated": "",
  };
  for (const [path, text] of Object.entries(files)) await writeFile(join(root, path), text);
  const systemctl = (...args: string[]) => run(["systemctl", `--root=${root}`, ...args], { timeoutMs: TOOL_MS });
  await systemctl("mask", ...SWITCHED_OFF);
  await systemctl("enable", "systemd-networkd", "systemd-resolved", "ssh");
}

async function addNode(root: string): Promise<void> {
  const folder = await mkdtemp(join(root, "tmp/node-"));
  const name = `node-linux-${process.arch}`;
  await npm(["pack", "--silent", "--pack-destination", folder, `${name}@${NODE_VERSION}`], folder);
  await mkdir(join(root, "opt/node"));
  const [archive = ""] = await readdir(folder);
  await run(["tar", "-xzf", join(folder, archive), "-C", join(root, "opt/node"), "--strip-components=1"], {
    timeoutMs: TOOL_MS,
  });
  await symlink("/opt/node/bin/node", join(root, "usr/local/bin/node"));
  await rm(folder, { recursive: true });
}

/** Debian's own initrd takes minutes to unpack and run on an emulated processor. */
async function makeInitrd(root: string, initrd: string): Promise<void> {
  const folder = await mkdtemp(join(root, "tmp/initrd-"));
  for (const name of ["bin", "modules", "root", "dev"]) await mkdir(join(folder, name));
  await cp(join(root, "usr/bin/busybox"), join(folder, "bin/busybox"));
  const [release = ""] = await readdir(join(root, "lib/modules"));
  const glob = new Bun.Glob(`**/{${FIRST_MODULES.join(",")}}.ko*`);
  const found = [...glob.scanSync({ cwd: join(root, "lib/modules", release), absolute: true })];
  const names = FIRST_MODULES.filter((name) => found.some((path) => path.includes(`/${name}.ko`)));
  for (const name of names) {
    const path = found.find((each) => each.includes(`/${name}.ko`)) ?? "";
    const copy = join(folder, "modules", `${name}.ko`);
    await cp(path, path.endsWith(".xz") ? `${copy}.xz` : copy);
    if (path.endsWith(".xz")) await run(["xz", "-d", `${copy}.xz`], { timeoutMs: TOOL_MS });
  }
  const init = `#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for name in ${names.join(" ")}; do /bin/busybox insmod /modules/$name.ko; done
until [ -b /dev/vda ]; do /bin/busybox sleep 0.2; done
/bin/busybox mount -t ext4 -o noatime /dev/vda /root
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
`;
  await writeFile(join(folder, "init"), init);
  await chmod(join(folder, "init"), 0o755);
  await run(["sh", "-c", 'cd "$1" && find . | cpio -o -H newc -R 0:0 --quiet > "$2"', "sh", folder, initrd], {
    timeoutMs: TOOL_MS,
  });
  await rm(folder, { recursive: true });
}
