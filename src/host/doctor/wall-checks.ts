/** What the machine itself adds to the walls of sandboxes, or takes from them. Sandboxes run without any of it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { release } from "node:os";
import { basename, join } from "node:path";
import { attempt } from "../system/command.ts";
import { type Check, degraded, type Finding, ok } from "./finding.ts";

/**
 * Modules that the kernel loads because somebody asks for what is in them, that have had holes, and that few machines
 * need. The filter of system calls does not let a sandbox ask; this is the wall behind it.
 */
const SELDOM_NEEDED = `
af_alg af_key ah4 ah6 algif_aead algif_hash algif_rng algif_skcipher appletalk atm ax25 bluetooth can can_bcm can_raw dccp
dccp_ipv4 dccp_ipv6 esp4 esp6 ieee802154_socket ipcomp ipcomp6 kcm llc2 mctp n_gsm n_hdlc netrom nfc phonet qrtr rds rose rxrpc
sctp smc tipc vsock vsock_loopback x25 xfrm_user
`
  .trim()
  .split(/\s+/);
const DENY_LIST = "/etc/modprobe.d/sandlot.conf";

export function wallChecks(): Check[] {
  return [
    { name: "modules", run: modules },
    { name: "processors", run: async () => processors("/sys/devices/system/cpu/vulnerabilities") },
    { name: "merged pages", run: async () => mergedPages("/sys/kernel/mm/ksm/run") },
  ];
}

async function modules(): Promise<Finding> {
  if (!existsSync("/proc/modules")) return ok("the kernel loads none");
  if (textOf("/proc/sys/kernel/modules_disabled") === "1") return ok("no more can be loaded");
  const known = textOf(`/lib/modules/${release()}/modules.dep`);
  const config = await attempt(["modprobe", "--showconfig"]).catch(() => undefined);
  if (config === undefined || config.exitCode !== 0) return ok("there is nothing that loads them");
  return modulesFinding(known, config.stdout, (name) => existsSync(join("/sys/module", name)));
}

/** From the files that there are, and what modprobe is told about them. */
export function modulesFinding(known: string, config: string, isLoaded: (name: string) => boolean): Finding {
  const there = new Set(
    known.split("\n").map((line) => plain(basename(line.split(":")[0] ?? "").replace(/\.ko(?:\.\w+)?$/, ""))),
  );
  const refusals = config.matchAll(/^(?:blacklist (\S+)|install (\S+) (?:\/usr)?\/bin\/(?:false|true)\b.*)$/gm);
  const refused = new Set([...refusals].map(([, listed, installed]) => plain(listed ?? installed ?? "")));
  const left = SELDOM_NEEDED.filter((name) => there.has(name) && !refused.has(name) && !isLoaded(name));
  if (left.length === 0) return ok("none that is seldom needed would be loaded because somebody asks for it");
  return degraded(
    `${left.length} that are seldom needed would be loaded because somebody asks for them: ${left.join(", ")}`,
    "a wall behind the filter of system calls, which keeps sandboxes from asking",
    `printf 'install %s /bin/false\\n' ${left.join(" ")} > ${DENY_LIST}`,
  );
}

/** modprobe takes either line for the other. */
function plain(name: string): string {
  return name.replaceAll("-", "_");
}

/** What the kernel says of the holes that its processors have. */
export function processors(folder: string): Finding {
  const names = existsSync(folder) ? readdirSync(folder).sort() : [];
  const open = names.filter((name) => /^Vulnerable|SMT vulnerable/.test(textOf(join(folder, name))));
  if (open.length === 0) return ok("the kernel knows of no hole that is open");
  const byThreads = open.filter((name) => /SMT vulnerable/.test(textOf(join(folder, name))));
  return degraded(
    `holes that are open: ${open.join(", ")}`,
    "code in one sandbox may read what another one computes with, slowly",
    byThreads.length === open.length
      ? "echo off > /sys/devices/system/cpu/smt/control (or nosmt on the kernel's command line): two sandboxes then share no core at once"
      : "update the kernel and the microcode; take mitigations=off from the kernel's command line",
  );
}

export function mergedPages(file: string): Finding {
  if (textOf(file) !== "1") return ok("pages of different sandboxes are not merged");
  return degraded(
    "the kernel merges pages with the same content (KSM)",
    "a sandbox can find out whether another one has a page that it guesses",
    `echo 2 > ${file}`,
  );
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
}
