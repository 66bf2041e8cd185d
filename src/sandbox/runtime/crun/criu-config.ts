/** How CRIU treats what reaches out of a sandbox. */
import { readFileSync } from "node:fs";

export const CRIU_CONFIG_FILE = "criu.conf";

const ALWAYS = `
# Bind mounts from the host (the guest folder, devices) are found again by name, not stored.
external mnt[]:ms
# The network namespace is made anew and plugged by the host.
empty-ns net
# Connections within the sandbox are kept with what is on its way; the host closes those to the outside afterwards.
tcp-established
skip-in-flight
# On a restore the host holds packets back itself.
network-lock skip
link-remap
`;

export function criuConfig(): string {
  return ALWAYS + controllerLines(readFileSync("/proc/self/cgroup", "utf8"));
}

/**
 * With cgroup v1, a sandbox is in a cgroup of its own in every tree that has a controller, but in the root of the
 * others (named ones, and the unified tree of a hybrid layout). CRIU would store those roots with everything below
 * them, that is, all cgroups of the machine, and make them again on restore; so it is told which trees count. With v2
 * there is one tree.
 */
export function controllerLines(ownCgroups: string): string {
  const controllers = ownCgroups
    .trim()
    .split("\n")
    .flatMap((line) => (line.split(":")[1] ?? "").split(","))
    .filter((name) => name !== "" && !name.startsWith("name="));
  return controllers.map((name) => `cgroup-dump-controller ${name}\n`).join("");
}
