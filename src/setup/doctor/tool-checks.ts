/** Checks the tools, each by using it for its purpose. */
import { existsSync } from "node:fs";
import { errorMessage } from "../../base/error-message.ts";
import { Fault } from "../../contract/fault.ts";
import { attempt } from "../../system/command.ts";
import { Toolbox } from "../../system/toolbox.ts";
import { COMMANDS, missingCommands } from "../packages.ts";
import { tryCheckpoint } from "./checkpoint-trial.ts";
import { broken, type Check, type DoctorOptions, degraded, ok } from "./finding.ts";

const CRIU_MIN: [number, number] = [4, 2];
/** Releases are named by date. Earlier ones have no systrap and kill a sandbox while checkpointing it. */
const RUNSC_MIN_DATE = 20_240_729;
const PAUSE_TIMEOUT_FIX =
  "pause and resume may fail with 503 or lose memory until this is ok: set SANDLOT_TIME_FACTOR (for example 10) on a " +
  "slow machine; on a fast one that is idle, CRIU hangs: look for its process (ps -C criu) and at dmesg";
const SET_UP = "run `sandlot up`, which sets it up";

export function toolChecks(options: DoctorOptions): Check[] {
  const toolbox = new Toolbox(options.cacheFolder);
  return [
    { name: "commands", run: commands },
    { name: "crun", run: () => crun(toolbox) },
    { name: "runsc", timeoutFix: PAUSE_TIMEOUT_FIX, run: () => runsc(toolbox, options) },
    { name: "CRIU", timeoutFix: PAUSE_TIMEOUT_FIX, run: () => criu(toolbox, options) },
  ];
}

async function commands() {
  const missing = missingCommands();
  if (missing.length === 0) return ok(Object.keys(COMMANDS).join(", "));
  const packages = [...new Set(missing.map((name) => COMMANDS[name]))].join(" ");
  return broken(`missing: ${missing.join(", ")}`, `apt-get install ${packages}`);
}

async function crun(toolbox: Toolbox) {
  if (!toolbox.ready) return broken("not installed", SET_UP);
  const result = await attempt([...toolbox.crun, "--version"]);
  const version = /crun version (\S+)/.exec(result.stdout)?.[1];
  if (version === undefined) return broken(`does not run: ${result.stderr.trim()}`, SET_UP);
  if (!result.stdout.includes("+SECCOMP")) return broken(`crun ${version} has no seccomp`, SET_UP);
  return ok(`version ${version} with seccomp`);
}

/** Tried only if chosen, because the trial takes seconds. */
async function runsc(toolbox: Toolbox, options: DoctorOptions) {
  const program = options.runsc ?? toolbox.runsc;
  const isChosen = options.runtime === "runsc" || options.runsc !== undefined;
  if (!isChosen && !existsSync(program)) return ok("not installed; SANDLOT_WALL=runsc installs it");
  const lost = "the isolation runtime runsc cannot be used";
  const result = await attempt([program, "--version"]).catch(() => undefined);
  const version = /^runsc version (\S+)/m.exec(result?.stdout ?? "")?.[1];
  if (version === undefined) return unusable(isChosen, `${program} does not run`, lost);
  const date = Number(/\d{8}/.exec(version)?.[0] ?? 0);
  if (date < RUNSC_MIN_DATE) return unusable(isChosen, `version ${version} is older than ${RUNSC_MIN_DATE}`, lost);
  if (!isChosen) return ok(`version ${version}; not tried, for no server uses it for all sandboxes`);
  if (missingCommands().length > 0) return degraded("not tried, for commands are missing", lost, "see the line above");
  try {
    const { checkpointMs, restoreMs } = await tryCheckpoint(options, "runsc");
    return ok(`version ${version}; a sandbox was written in ${checkpointMs} ms and brought back in ${restoreMs} ms`);
  } catch (error) {
    if (error instanceof Fault && error.status === 503) throw error;
    const reason = errorMessage(error);
    return unusable(isChosen, `version ${version} could not pause and resume a sandbox: ${reason.slice(0, 600)}`, lost);
  }
}

/** Broken if the operator chose runsc, otherwise degraded. */
function unusable(isChosen: boolean, detail: string, lost: string) {
  const fix = "leave out SANDLOT_RUNSC for the one that set-up brings, or choose SANDLOT_WALL=crun";
  return isChosen ? broken(detail, fix) : degraded(detail, lost, fix);
}

async function criu(toolbox: Toolbox, options: DoctorOptions) {
  if (!toolbox.ready) return broken("not installed", SET_UP);
  const result = await attempt([...toolbox.criu, "--version"]);
  const version = /Version:\s*(\d+)\.(\d+)(\S*)/.exec(result.stdout);
  if (version === null) return broken(`does not run: ${result.stderr.trim()}`, SET_UP);
  const [major, minor] = [Number(version[1]), Number(version[2])];
  const fits = major > CRIU_MIN[0] || (major === CRIU_MIN[0] && minor >= CRIU_MIN[1]);
  if (!fits) return broken(`version ${major}.${minor} is older than ${CRIU_MIN.join(".")}`, SET_UP);
  if (!existsSync(options.guestFolder)) return broken("no guest to try it with", SET_UP);
  const lost = "a pause cannot keep memory";
  // Without these commands the trial could neither make its network nor remove it.
  if (missingCommands().length > 0) return degraded("not tried, for commands are missing", lost, "see the line above");
  const fix = "use a kernel with CONFIG_CHECKPOINT_RESTORE; the message names what failed";
  try {
    const { checkpointMs, restoreMs } = await tryCheckpoint(options, "crun");
    return ok(
      `version ${major}.${minor}${version[3]}; a sandbox with a listening socket, an inotify watch and a terminal was ` +
        `written in ${checkpointMs} ms and brought back in ${restoreMs} ms`,
    );
  } catch (error) {
    if (error instanceof Fault && error.status === 503) throw error;
    const reason = errorMessage(error);
    return degraded(`a real sandbox could not be checkpointed and restored: ${reason.slice(0, 600)}`, lost, fix);
  }
}
