/** The systemd unit of the service that `sandlot install` makes. docs/install.md explains its settings. */
import { OPEN_FILES_WANTED } from "../../system/open-files.ts";

export const SERVICE = "sandlot";
export const UNIT_FILE = `/etc/systemd/system/${SERVICE}.service`;
/** The first line: other files belong to the operator. */
export const UNIT_MARK = "# Written by `sandlot install`. Change it with `systemctl edit sandlot`.";

/** Rights on the machine that neither server nor tools use. Sandboxes have few rights anyway, on their own ids only. */
const DROPPED_CAPABILITIES =
  "CAP_AUDIT_CONTROL CAP_AUDIT_READ CAP_BLOCK_SUSPEND CAP_LEASE CAP_MAC_ADMIN CAP_SYS_BOOT CAP_SYS_PACCT " +
  "CAP_SYS_RAWIO CAP_SYS_TTY_CONFIG CAP_SYSLOG CAP_WAKE_ALARM";

interface ServiceSettings {
  bun: string;
  main: string;
  /** A page of the documentation. */
  page: string;
  watchdogMs: number;
  stopMs: number;
  systemdVersion: number;
}

/** The first version with growing pauses between restarts. */
const GROWING_PAUSES_SINCE = 254;

/**
 * Sandboxes inherit most restrictions of a service, and CRIU would have to restore them, so system call filters and
 * NoNewPrivileges are absent. So are mount namespaces (PrivateTmp, ProtectSystem): the server's mounts would end with
 * each run, and those of sandboxes must not.
 */
export function unitText({ bun, main, page, watchdogMs, stopMs, systemdVersion }: ServiceSettings): string {
  const pauses =
    systemdVersion < GROWING_PAUSES_SINCE ? "RestartSec=10" : "RestartSec=1\nRestartSteps=6\nRestartMaxDelaySec=60";
  return `${UNIT_MARK}
[Unit]
Description=Sandlot, isolated Linux sandboxes for AI agents
Documentation=file://${encodeURI(page)}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart=${unitWord(bun)} ${unitWord(main)} up
WorkingDirectory=/
SyslogIdentifier=${SERVICE}
TimeoutStartSec=infinity
TimeoutStopSec=${seconds(stopMs)}
WatchdogSec=${seconds(watchdogMs)}
# At once, and without a core file, which would hold the secrets of tenants.
WatchdogSignal=SIGKILL
Restart=on-failure
${pauses}
# Sandboxes are in cgroups of their own, so they survive a stop. Only the server's helpers end with it.
KillMode=mixed
Delegate=yes
OOMPolicy=continue
TasksMax=infinity
LimitNOFILE=${OPEN_FILES_WANTED}
# Programs in sandboxes inherit it.
IgnoreSIGPIPE=no
CapabilityBoundingSet=~${DROPPED_CAPABILITIES}

[Install]
WantedBy=multi-user.target
`;
}

/** One word of a command line, with nothing that systemd expands. */
export function unitWord(word: string): string {
  const literal = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[\w./@%$+:-]+$/.test(literal) ? literal : `"${literal.replaceAll(/["\\]/g, "\\$&")}"`;
}

function seconds(ms: number): string {
  return String(Math.ceil(ms / 1000));
}
