/** Checks the features of the kernel. Mounts and rules are tried in throw-away namespaces and leave nothing. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { release, tmpdir } from "node:os";
import { join } from "node:path";
import { imageFolder } from "../../images/image-folder.ts";
import { cgroupLayout, cgroupTrees } from "../../system/cgroup/cgroups.ts";
import { attempt } from "../../system/command.ts";
import { canDestroyConnections } from "../../system/net/socket-destroy.ts";
import { broken, type Check, type DoctorOptions, degraded, type Finding, ok } from "./finding.ts";
import { firewall } from "./firewall-check.ts";

const KERNEL_MIN: [number, number] = [5, 11];
const ID_TRIAL = join(import.meta.dir, "id-trial-program.ts");
const CAP_SYS_ADMIN = 21n;
const CAP_NET_ADMIN = 12n;

export function kernelChecks(options: DoctorOptions): Check[] {
  return [
    { name: "root", run: root },
    { name: "kernel", run: kernel },
    { name: "namespaces", run: namespaces },
    { name: "cgroups", run: cgroups },
    { name: "overlayfs", run: overlay },
    { name: "user ids", run: () => userIds(options) },
    { name: "reflink pool", run: () => reflinkPool(options.dataFolder) },
    { name: "nftables", run: nftables },
    { name: "firewall", run: firewall },
    { name: "sockets", run: async () => socketsFinding(canDestroyConnections()) },
  ];
}

async function root() {
  if (process.getuid?.() !== 0) return broken("this is not root", "run it with sudo");
  const line = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0";
  const held = BigInt(`0x${line}`);
  const missing = Object.entries({ CAP_SYS_ADMIN, CAP_NET_ADMIN }).filter(([, bit]) => (held & (1n << bit)) === 0n);
  if (missing.length === 0) return ok("root with the capabilities that are needed");
  const names = missing.map(([name]) => name).join(", ");
  return broken(`root lacks ${names}`, "run on the machine itself or in a container started with --privileged");
}

async function kernel() {
  const [major = 0, minor = 0] = release().split(".").map(Number);
  const fits = major > KERNEL_MIN[0] || (major === KERNEL_MIN[0] && minor >= KERNEL_MIN[1]);
  if (fits) return ok(`Linux ${release()}`);
  return broken(`Linux ${release()} is too old`, `use a kernel of version ${KERNEL_MIN.join(".")} or later`);
}

async function namespaces() {
  const all = ["--user", "--map-root-user", "--pid", "--fork", "--mount", "--net", "--ipc", "--uts", "--cgroup"];
  const result = await attempt(["unshare", ...all, "true"]);
  if (result.exitCode === 0) return ok("user, pid, mount, net, ipc, uts and cgroup");
  return broken(
    `cannot make them: ${result.stderr.trim()}`,
    "allow user namespaces: sysctl -w user.max_user_namespaces=100000 " +
      "(Ubuntu 24.04 on: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)",
  );
}

async function cgroups() {
  const layout = cgroupLayout();
  if (cgroupTrees().length === 0) {
    return broken("none are mounted below /sys/fs/cgroup", "mount them: mount -t cgroup2 cgroup2 /sys/fs/cgroup");
  }
  const wanted = ["memory", "pids", "cpu"];
  const fix = "boot with the memory, pids and cpu controllers (cgroup_enable=memory on some boards)";
  if (layout === "v2") {
    const offered = readFileSync("/sys/fs/cgroup/cgroup.controllers", "utf8").trim().split(" ");
    const missing = wanted.filter((name) => !offered.includes(name));
    if (missing.length > 0) return broken(`layout v2 without ${missing.join(", ")}`, fix);
  } else {
    const trees = cgroupTrees().map((path) => path.slice("/sys/fs/cgroup/".length).split(","));
    const missing = wanted.filter((name) => !trees.some((tree) => tree.includes(name)));
    if (missing.length > 0) return broken(`layout ${layout} without ${missing.join(", ")}`, fix);
  }
  for (const tree of cgroupTrees().filter((path) => /memory|pids|cgroup$/.test(path))) {
    const trial = join(tree, `sandlot-doctor-${process.pid}`);
    mkdirSync(trial);
    rmdirSync(trial);
  }
  return ok(`layout ${layout}; memory, pids and cpu can be limited`);
}

async function overlay() {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-doctor-"));
  try {
    for (const name of ["lower", "tmp", "root"]) mkdirSync(join(folder, name));
    writeFileSync(join(folder, "lower/file"), "x");
    const layers = `lowerdir=${folder}/lower,upperdir=${folder}/tmp/upper,workdir=${folder}/tmp/work`;
    const script = [
      `mount -t tmpfs none ${folder}/tmp && mkdir ${folder}/tmp/upper ${folder}/tmp/work`,
      `mount -t overlay overlay -o ${layers},index=on,nfs_export=on ${folder}/root`,
      `cat ${folder}/root/file`,
    ].join(" && ");
    const result = await attempt(["unshare", "--mount", "sh", "-c", script]);
    if (result.exitCode === 0) return ok("mounts with index and nfs_export");
    return broken(`cannot mount: ${result.stderr.trim()}`, "load it (modprobe overlay), or use a kernel that has it");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function userIds({ dataFolder, cacheFolder }: DoctorOptions) {
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
  const folder = mkdtempSync(join(dataFolder, ".doctor-"));
  try {
    const own = join(folder, "layer");
    mkdirSync(own);
    const images = imageFolder(cacheFolder, "");
    const layers = existsSync(images) ? [own, images] : [own];
    const result = await attempt(["unshare", "--mount", process.execPath, ID_TRIAL, folder, ...layers]);
    if (result.exitCode === 0) return ok("each sandbox has its own, for files by their mounts");
    return degraded(
      `owners of files cannot be mapped: ${result.stderr.trim()}`,
      "all sandboxes share their ids, and two can use up what the kernel lets one user have",
      "use Linux 5.19 or later, with SANDLOT_DATA and SANDLOT_CACHE on ext4, XFS or btrfs",
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function reflinkPool(dataFolder: string) {
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
  const folder = mkdtempSync(join(dataFolder, ".doctor-"));
  try {
    writeFileSync(join(folder, "a"), "x".repeat(8192));
    const clone = await attempt(["cp", "--reflink=always", join(folder, "a"), join(folder, "b")]);
    if (clone.exitCode === 0) return ok("the data folder can share blocks");
    const script = [
      `truncate -s 256M ${folder}/pool && mkfs.btrfs -q -f ${folder}/pool && mkdir ${folder}/mnt`,
      `mount -o loop ${folder}/pool ${folder}/mnt && echo x > ${folder}/mnt/a`,
      `cp --reflink=always ${folder}/mnt/a ${folder}/mnt/b && umount ${folder}/mnt`,
    ].join(" && ");
    const pool = await attempt(["unshare", "--mount", "sh", "-c", script]);
    if (pool.exitCode === 0) return ok("a btrfs file in the data folder can share blocks");
    return degraded(
      `neither the data folder nor a btrfs file can share blocks: ${pool.stderr.trim()}`,
      "copies of a sandbox's disk take the time and room of its content",
      "put SANDLOT_DATA on btrfs or XFS, or load btrfs (modprobe btrfs)",
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function nftables() {
  const rules = `table inet t {
    set s { type ipv4_addr; flags interval; auto-merge; elements = { 10.0.0.0/8 } }
    set m { type ipv4_addr; size 65536; flags dynamic; timeout 10s; }
    set n { type ipv4_addr; size 65536; flags dynamic; }
    map v { type ipv4_addr : verdict; elements = { 192.0.2.2 : jump f } }
    chain f { ct original ip daddr @s drop; ct direction reply ct status dnat accept; }
    chain e { type filter hook input priority filter; add @m { ip saddr limit rate over 9/second burst 9 packets } drop; }
    chain a { type filter hook prerouting priority raw; fib saddr . iif oif missing drop; }
    chain b { type nat hook prerouting priority dstnat; fib daddr type local return; udp dport 53 dnat ip to 192.0.2.1:53; }
    chain c { type filter hook forward priority filter; ct state new add @n { ip saddr ct count over 9 } drop; ip daddr @s reject with icmp type admin-prohibited; ip saddr vmap @v; }
    chain d { type nat hook postrouting priority srcnat; masquerade; }
    chain g { type filter hook output priority filter; meta skuid 9 fib daddr type != unicast drop; }
  }`;
  const result = await attempt(["unshare", "--net", "nft", "-f", "-"], { stdin: rules });
  if (result.exitCode === 0) return ok("sets, verdict maps, NAT, connection tracking and reverse-path checks");
  return broken(
    `cannot load our kind of rules: ${result.stderr.trim().split("\n")[0] ?? ""}`,
    "load the modules: modprobe -a nf_tables nft_fib_inet nft_nat nft_masq nft_ct nft_reject_inet nft_limit nft_connlimit",
  );
}

export function socketsFinding(canDestroy: boolean): Finding {
  if (canDestroy) return ok("connections to a sandbox can be closed when it pauses or ends");
  return degraded(
    "the kernel cannot close connections of other processes (no CONFIG_INET_DIAG_DESTROY)",
    "programs on this machine that connect to a sandbox directly notice its pause or end late",
    "use a kernel with CONFIG_INET_DIAG_DESTROY; clients of the server are not affected",
  );
}
