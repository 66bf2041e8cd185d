/** How CRIU treats what reaches out of a sandbox; crun hands the file to it. */
export const CRIU_CONFIG_FILE = "criu.conf";

export const CRIU_CONFIG = `
# Bind mounts from the host (the guest folder, devices) are found again by name, not stored.
external mnt[]:ms
# The network namespace is made anew and plugged by the host.
empty-ns net
tcp-close
# Nothing to hold back: connections are closed, and the sandbox is unplugged while it is stopped.
network-lock skip
link-remap
`;
