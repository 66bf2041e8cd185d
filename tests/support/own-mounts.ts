/**
 * A command prefix: tests mount things themselves, in a namespace that goes with them; and there, as in a server's own,
 * crun must not see the unified hierarchy of a hybrid cgroup layout.
 */
export const OWN_MOUNTS = [
  "unshare",
  "--mount",
  "--propagation=slave",
  "sh",
  "-c",
  'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"',
  "sh",
];
