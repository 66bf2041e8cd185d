/** Checks hardening of the host that strengthens or weakens the isolation of sandboxes. Sandboxes run without it. */
import { existsSync, readdirSync } from "node:fs";
import { release } from "node:os";
import { join } from "node:path";
import { attempt } from "../../system/command.ts";
import { mergingFault } from "../../system/page-merging.ts";
import { broken, type Check, type DoctorOptions, degraded, type Finding, ok, textOf } from "./finding.ts";

/**
 * Rarely used protocols and line disciplines with a history of vulnerabilities. The kernel loads them when any program
 * opens such a socket or terminal. The seccomp filter keeps sandboxes from doing that; a module blacklist is a second
 * barrier. Modules that ordinary hosts use are not listed: Bluetooth, IPsec, SCTP, CAN, vsock, the kernel's ciphers.
 */
const RARE =
  "appletalk ax25 dccp_ipv4 dccp_ipv6 ieee802154_socket kcm llc2 n_gsm n_hdlc netrom phonet rds rose tipc x25".split(
    " ",
  );
const DENY_LIST = "/etc/modprobe.d/sandlot.conf";

export function isolationChecks({ sharedMemory }: Pick<DoctorOptions, "sharedMemory">): Check[] {
  return [
    { name: "modules", run: modules },
    { name: "processors", run: async () => processors("/sys/devices/system/cpu/vulnerabilities") },
    { name: "merged pages", run: () => mergedPages(sharedMemory) },
  ];
}

async function modules(): Promise<Finding> {
  if (!existsSync("/proc/modules")) return ok("the kernel loads none");
  if (textOf("/proc/sys/kernel/modules_disabled") === "1") return ok("no more can be loaded");
  const aliases = textOf(`/lib/modules/${release()}/modules.alias`);
  const config = await attempt(["modprobe", "--showconfig"]).catch(() => undefined);
  if (config === undefined || config.exitCode !== 0) return ok("there is nothing that loads them");
  return modulesFinding(aliases, config.stdout, (name) => existsSync(join("/sys/module", name)));
}

/** `aliases`: the names by which the kernel requests modules. `config`: modprobe's configuration. */
export function modulesFinding(aliases: string, config: string, isLoaded: (name: string) => boolean): Finding {
  const refusals = config.matchAll(/^(?:blacklist (\S+)|install (\S+) (?:\/usr)?\/bin\/(?:false|true)\b.*)$/gm);
  const refused = new Set([...refusals].map(([, listed, installed]) => plain(listed ?? installed ?? "")));
  const off = new Set([...config.matchAll(/^alias (\S+) off$/gm)].map(([, alias = ""]) => plain(alias)));
  // Distributions removed the alias of some of these modules, so that only an explicit modprobe loads them.
  const autoloaded = [...aliases.matchAll(/^alias ((?:net-pf|tty-ldisc)-\S+) (\S+)$/gm)];
  const loadable = new Set(
    autoloaded.flatMap(([, alias = "", name = ""]) => (off.has(plain(alias)) ? [] : [plain(name)])),
  );
  const left = RARE.filter((name) => loadable.has(name) && !refused.has(name) && !isLoaded(name));
  if (left.length === 0) return ok("no rare protocol is loaded because a program asks for it");
  return degraded(
    `the kernel loads rare protocols when a program asks for them: ${left.join(", ")}`,
    "a second defence behind the system call filter, which already rejects such requests",
    // Not "install": drivers that depend on one of them, and modprobe by name, can still load it.
    `printf 'blacklist %s\\n' ${left.join(" ")} > ${DENY_LIST}`,
  );
}

/** modprobe treats hyphen and underscore alike. */
function plain(name: string): string {
  return name.replaceAll("-", "_");
}

/** The processor vulnerabilities that the kernel reports. */
export function processors(folder: string): Finding {
  const names = existsSync(folder) ? readdirSync(folder).sort() : [];
  const open = names.filter((name) => /^Vulnerable|SMT vulnerable/.test(textOf(join(folder, name))));
  if (open.length === 0) return ok("the kernel reports no open processor vulnerability");
  const byThreads = open.filter((name) => /SMT vulnerable/.test(textOf(join(folder, name))));
  return degraded(
    `open processor vulnerabilities: ${open.join(", ")}`,
    "code in one sandbox may read what another one computes with, slowly",
    byThreads.length === open.length
      ? "echo off > /sys/devices/system/cpu/smt/control (or nosmt on the kernel's command line): then no two sandboxes share a core"
      : "update the kernel and the microcode; take mitigations=off from the kernel's command line",
  );
}

/** `teams` share memory; undefined: no sandbox does, and the seccomp filter keeps sandboxes from taking part. */
async function mergedPages(teams: string | undefined): Promise<Finding> {
  if (teams === undefined) return ok("no sandbox shares memory with another");
  const fault = await mergingFault();
  if (fault !== undefined) return broken(fault, "unset SANDLOT_SHARED_MEMORY, or start a newer kernel");
  return ok(`sandboxes of ${teams} share equal pages; by timing, they can find out which pages the others hold`);
}
