/** CRIU's configuration for resources that reach out of a sandbox. */
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
 * With cgroup v1, a sandbox has its own cgroup in every hierarchy with a controller, but is in the root of the others
 * (named ones, and the unified hierarchy of a hybrid layout). CRIU would store those roots with everything below them,
 * that is, all cgroups of the machine, and recreate them on restore. So the configuration lists the hierarchies to
 * store. cgroup v2 has a single hierarchy.
 */
export function controllerLines(ownCgroups: string): string {
  const controllers = ownCgroups
    .trim()
    .split("\n")
    .flatMap((line) => (line.split(":")[1] ?? "").split(","))
    .filter((name) => name !== "" && !name.startsWith("name="));
  return controllers.map((name) => `cgroup-dump-controller ${name}\n`).join("");
}
