/**
 * Checks whether another firewall on the host blocks traffic of sandboxes. Test packets decide that; rules are read
 * only to name the blocking firewall and its fix. A packet must pass the chains of every firewall, so no rule of
 * Sandlot can override another firewall's drop.
 */
import { errorMessage } from "../../base/error-message.ts";
import { Fault } from "../../contract/fault.ts";
import { ANY_INTERFACE } from "../../sandbox/network/slot-chains.ts";
import { attempt } from "../../system/command.ts";
import { degraded, type Finding, ok, textOf } from "./finding.ts";
import { type FirewallTrial, tryFirewall } from "./firewall-trial.ts";

type Hook = keyof FirewallTrial;

/** A firewall that may block packets at a hook, and the command that lets sandboxes through. */
interface Blocker {
  name: string;
  fix: string;
}

const LOST: Readonly<Record<Hook, string>> = {
  input: "sandboxes find no names, and connections that are judged by name fail",
  forward: "sandboxes reach nothing outside",
};
const WILDCARD = `${ANY_INTERFACE}+`;
const OWN_TABLE = /^sandlot_/;

export async function firewall(): Promise<Finding> {
  let passed: FirewallTrial;
  try {
    passed = await tryFirewall();
  } catch (error) {
    if (error instanceof Fault && error.status === 503) throw error;
    const reason = errorMessage(error);
    return degraded(
      `not tried, because no network could be made for it: ${reason.slice(0, 300)}`,
      "it is not known whether another firewall stops sandboxes",
      `if it does, let the interfaces ${WILDCARD} through its chains for input and forwarding`,
    );
  }
  const stopped = (["input", "forward"] as const).filter((hook) => !passed[hook]);
  if (stopped.length === 0) return ok("lets packets of sandboxes through, to this machine and to the outside");
  const blockers = (await Promise.all(stopped.map(blockersAt))).flat();
  const names = [...new Set(blockers.map(({ name }) => name))];
  const fixes = [...new Set(blockers.map(({ fix }) => fix))];
  return degraded(
    `${names.join(" and ") || "something"} stops packets of sandboxes (${stopped.join(" and ")})`,
    stopped.map((hook) => LOST[hook]).join("; "),
    fixes.join("; ") || `let the interfaces ${WILDCARD} through the chains for ${stopped.join(" and ")}`,
  );
}

async function blockersAt(hook: Hook): Promise<Blocker[]> {
  const chains = await filterChainsAt(hook);
  const found = await Promise.all(chains.map((chain) => blockerOf(hook, chain)));
  return [...found, ...(await legacyBlockers(hook))].filter((blocker) => blocker !== undefined);
}

interface Chain {
  family: string;
  table: string;
  name: string;
}

/** Base chains of other programs' tables. */
async function filterChainsAt(hook: Hook): Promise<Chain[]> {
  const { stdout } = await attempt(["nft", "--json", "list", "chains"]);
  const listed = JSON.parse(stdout || "{}") as { nftables?: { chain?: Chain & { hook?: string; type?: string } }[] };
  return (listed.nftables ?? [])
    .flatMap(({ chain }) => (chain === undefined ? [] : [chain]))
    .filter((chain) => chain.hook === hook && chain.type === "filter" && chain.family !== "ip6")
    .filter(({ table }) => !OWN_TABLE.test(table));
}

/** Undefined: its table neither drops nor rejects. */
async function blockerOf(hook: Hook, { family, table, name }: Chain): Promise<Blocker | undefined> {
  const { stdout: rules } = await attempt(["nft", "--stateless", "list", "table", family, table]);
  if (!/\b(?:drop|reject|DROP|REJECT)\b/.test(rules)) return undefined;
  if (table === "firewalld") {
    const fix = `firewall-cmd --permanent --zone=trusted --add-interface=${WILDCARD} && firewall-cmd --reload`;
    return { name: "firewalld", fix };
  }
  if (family === "ip" && table === "filter") return iptablesBlocker(hook, "iptables", rules);
  const where = `${family} ${table} ${name}`;
  const ways = hook === "input" ? ["iifname"] : ["iifname", "oifname"];
  const fix = ways.map((way) => `nft insert rule ${where} ${way} '"${ANY_INTERFACE}*"' accept`).join("; ");
  return { name: `the chain ${where}`, fix };
}

/** Rules of iptables, from either kernel interface. */
function iptablesBlocker(hook: Hook, tool: string, rules: string): Blocker {
  if (rules.includes("ufw-before-")) {
    return { name: "ufw", fix: `ufw ${hook === "input" ? "" : "route "}allow in on ${WILDCARD}` };
  }
  const allow = (chain: string, way: string) => `${tool} -I ${chain} ${way} ${WILDCARD} -j ACCEPT`;
  if (hook === "input") return { name: tool, fix: allow("INPUT", "-i") };
  const isDocker = rules.includes("DOCKER-USER");
  const chain = isDocker ? "DOCKER-USER" : "FORWARD";
  return { name: isDocker ? "Docker" : tool, fix: `${allow(chain, "-i")}; ${allow(chain, "-o")}` };
}

/** nft does not list rules of the legacy interface. */
async function legacyBlockers(hook: Hook): Promise<(Blocker | undefined)[]> {
  // Skip the query without rules, because it would load the kernel modules.
  if (!textOf("/proc/net/ip_tables_names").split("\n").includes("filter")) return [];
  const { stdout } = await attempt(["iptables-legacy", "-S"]).catch(() => ({ stdout: "" }));
  return [/\b(?:DROP|REJECT)\b/.test(stdout) ? iptablesBlocker(hook, "iptables-legacy", stdout) : undefined];
}
