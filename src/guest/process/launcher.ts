/** Starts a client's process: resolves user, directory and environment, then spawns on pipes or in a terminal. */
import { systemCode } from "../../base/system-code.ts";
import { logError } from "../system/log.ts";
import { quote } from "../system/quote.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { Account } from "../users/accounts.ts";
import { processVariables } from "../users/environment.ts";
import { resolvePath } from "../users/paths.ts";
import type { KeptSettings, SettingsKeeper } from "../users/settings.ts";
import { type Command, directCommand, findSetpriv, requireDirectory, requireEntry, setprivCommand } from "./command.ts";
import { withReadableErrors } from "./failed-start.ts";
import { GuestProcess } from "./guest-process.ts";
import { spawnOnPipes } from "./pipes.ts";
import { startBelowGuest } from "./priority.ts";
import type { OutputSink, ProcessIo } from "./process-io.ts";
import { type ProcessTexts, requirePlainTexts } from "./start-texts.ts";
import type { Identity } from "./system-calls.ts";
import { spawnInTerminal, type TerminalSize, terminalSize } from "./terminal.ts";

/** Errors of the program or the user id. The process then starts anyway and ends with an error, as in a shell. */
const PROGRAM_FAILURES = new Set([
  "ENOENT",
  "EACCES",
  "ENOEXEC",
  "ENOTDIR",
  "ELOOP",
  "EISDIR",
  "ENAMETOOLONG",
  "ETXTBSY",
  "ELIBBAD",
  "EPERM",
  "EINVAL",
  "ERR_OUT_OF_RANGE",
]);

/** Errors that mean the sandbox lacks a resource for now; the request itself is valid. */
const SHORTAGES: Record<string, string> = {
  EAGAIN: "room for another process",
  ENOMEM: "memory",
  EMFILE: "descriptors for open files",
  ENFILE: "descriptors for open files",
};

/** A Start request in its wire form. */
export interface StartCall {
  process?: ProcessTexts | undefined;
  pty?: { size?: TerminalSize | undefined } | undefined;
  tag?: string | undefined;
  stdin?: boolean | undefined;
}

export type Launch = (request: StartCall, account: Account, lifetimeMs: number | undefined) => GuestProcess;

/** How the guest changes the user of a new process. */
interface UserChange {
  setpriv: string;
  /** The guest's own identity, for which no change is needed. */
  own: Identity;
}

export function createLaunch(
  settings: SettingsKeeper,
  guestPath: string | undefined,
  setpriv: string | undefined,
): Launch {
  const own = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0, groups: process.getgroups?.() ?? [] };
  const change = { setpriv: findSetpriv(setpriv), own };
  return (request, account, lifetimeMs) => {
    const command = commandOf(request, account, settings.current, guestPath);
    const size = request.pty?.size;
    const spawn = (actual: Command, sink: OutputSink): ProcessIo =>
      request.pty === undefined
        ? spawnOnPipes(actual, request.stdin !== false, sink)
        : spawnInTerminal(actual, terminalSize(size), sink);
    return new GuestProcess((sink) => spawnAs(account, command, change, sink, spawn), {
      config: request.process,
      tag: request.tag,
      cwd: command.cwd,
      lifetimeMs,
    });
  };
}

function commandOf(
  { process: config }: StartCall,
  account: Account,
  settings: KeptSettings,
  guestPath: string | undefined,
): Command {
  if (config === undefined || config.cmd === "") throw refuse("invalid_argument", "no command to run was given");
  requirePlainTexts(config);
  const cwd = resolvePath(config.cwd ?? "", account, settings.defaultWorkdir, "process.cwd");
  requireDirectory(cwd);
  if (config.cwd) requireEntry(cwd, account);
  return {
    argv: [config.cmd, ...config.args],
    argv0: config.cmd,
    cwd,
    env: processVariables(account, settings, config.envs, guestPath),
    uid: account.uid,
    gid: account.gid,
  };
}

function spawnAs(
  account: Account,
  command: Command,
  { setpriv, own }: UserChange,
  sink: OutputSink,
  spawn: (actual: Command, sink: OutputSink) => ProcessIo,
): ProcessIo {
  const direct = directCommand(command, account, own);
  try {
    if (direct !== undefined) return startBelowGuest(account.uid, () => spawn(direct, sink));
  } catch (thrown) {
    if (!PROGRAM_FAILURES.has(systemCode(thrown))) throw startFault(command, thrown);
  }
  try {
    const helped = setprivCommand(command, account, setpriv);
    return startBelowGuest(account.uid, () => withReadableErrors(command, sink, (filtered) => spawn(helped, filtered)));
  } catch (thrown) {
    throw startFault(command, thrown);
  }
}

function startFault(command: Command, thrown: unknown): Error {
  const program = quote(command.argv0);
  const short = SHORTAGES[systemCode(thrown)];
  if (short !== undefined) {
    const advice = "end something first, or try again later";
    return refuse(
      "resource_exhausted",
      `${program} could not be started: the sandbox has no ${short} left; ${advice}`,
      thrown,
    );
  }
  if (systemCode(thrown) === "E2BIG") {
    const limits = "an argument or a variable may have 128 KiB, and all of them together 2 MiB or less";
    return refuse("invalid_argument", `${program} could not be started: ${limits}; pass it by a file or stdin`, thrown);
  }
  const code = systemCode(thrown);
  logError("a process could not be started for an unforeseen reason", thrown);
  return refuse(
    "invalid_argument",
    `${program} could not be started${/^E[A-Z0-9]+$/.test(code) ? ` (${code})` : ""}`,
    thrown,
  );
}
