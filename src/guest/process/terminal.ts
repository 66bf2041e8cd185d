/**
 * A process on a pseudo-terminal with its own session. Bun reads the terminal as fast as it can and cannot be paused.
 * For a slow listener the guest therefore suspends the terminal's output in the kernel (like Ctrl-S, but not undone by
 * Ctrl-Q) until there is room again.
 */
import { chownSync, closeSync, constants, openSync, readdirSync, readlinkSync, statSync } from "node:fs";
import { systemCode } from "../../base/system-code.ts";
import { INPUT_SLICE_MAX_BYTES } from "../limits.ts";
import { logError, logNotice } from "../system/log.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { Command } from "./command.ts";
import { lowerBelowGuest } from "./priority.ts";
import type { OutputSink, ProcessIo } from "./process-io.ts";
import { setTerminalOutput } from "./system-calls.ts";

export interface TerminalSize {
  cols: number;
  rows: number;
}

const COLS_DEFAULT = 80;
const ROWS_DEFAULT = 24;

/** The client's size as the kernel stores it, in 16 bits. Zero or nothing selects the default. */
export function terminalSize(requested: Partial<TerminalSize> | undefined): TerminalSize {
  return {
    cols: (requested?.cols ?? 0) & 0xffff || COLS_DEFAULT,
    rows: (requested?.rows ?? 0) & 0xffff || ROWS_DEFAULT,
  };
}

export function spawnInTerminal(command: Command, size: TerminalSize, sink: OutputSink): ProcessIo {
  const ended = Promise.withResolvers<void>();
  const flow = new TerminalFlow();
  let drained: (() => void) | undefined;
  const known = openTerminals();
  const child = Bun.spawn(command.argv, {
    argv0: command.argv0,
    cwd: command.cwd,
    env: command.env,
    terminal: {
      ...size,
      data: (_terminal, chunk) => flow.follow(sink("pty", chunk)),
      drain: () => drained?.(),
      exit: () => ended.resolve(),
    },
  });
  lowerBelowGuest(child.pid);
  flow.path = openTerminals().find((path) => !known.includes(path));
  handOver(flow.path, command.uid);
  const exited = child.exited.then(() => ({ code: child.exitCode, signal: child.signalCode }));
  return {
    kind: "terminal",
    pid: child.pid,
    exited,
    outputEnded: ended.promise,
    hasOutput: () => flow.isHeld,
    async write(bytes) {
      for (let at = 0; at < bytes.length; at += INPUT_SLICE_MAX_BYTES) {
        if (child.exitCode !== null || child.signalCode !== null)
          throw refuse("internal", "the terminal's process is gone");
        const taken = Promise.withResolvers<void>();
        drained = taken.resolve;
        child.terminal?.write(bytes.slice(at, at + INPUT_SLICE_MAX_BYTES));
        await Promise.race([taken.promise, exited]);
      }
    },
    closeInput: () =>
      Promise.reject(refuse("unknown", "a terminal has no stdin to close; send the byte 0x04 as pty input")),
    resize(cols, rows) {
      const wanted = terminalSize({ cols, rows });
      child.terminal?.resize(wanted.cols, wanted.rows);
    },
    kill: (signal) => child.kill(signal),
    release: async () => child.terminal?.close(),
  };
}

/** Terminals that the guest has open. Listed right before and after a spawn, the difference is the new one. */
function openTerminals(): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      return /^\/dev\/pts\/\d+$/.test(target) ? [target] : [];
    } catch (thrown) {
      // The descriptor of this listing itself is already closed.
      if (systemCode(thrown) === "ENOENT") return [];
      throw thrown;
    }
  });
}

/** Gives the terminal to the process's user, as a login does: programs such as screen and gpg open it by name. */
function handOver(path: string | undefined, uid: number): void {
  try {
    if (path !== undefined) chownSync(path, uid, statSync(path).gid);
  } catch (thrown) {
    // A program that ended at once has already closed its terminal.
    if (systemCode(thrown) !== "ENOENT") logError("a terminal could not be handed to its user", thrown);
  }
}

/** Suspends a terminal's output while any listener waits for room. */
class TerminalFlow {
  path: string | undefined;
  #waiting = 0;

  get isHeld(): boolean {
    return this.#waiting > 0;
  }

  follow(room: Promise<unknown> | undefined): void {
    if (room === undefined) return;
    this.#waiting++;
    if (this.#waiting === 1) this.#control("suspend");
    void room.then(() => {
      this.#waiting--;
      if (this.#waiting === 0) this.#control("resume");
    });
  }

  /** Opens the terminal only briefly: an open descriptor would hide the end of its output. */
  #control(action: "suspend" | "resume"): void {
    if (this.path === undefined) return;
    try {
      const fd = openSync(this.path, constants.O_RDWR | constants.O_NOCTTY);
      try {
        if (!setTerminalOutput(fd, action)) logNotice("the kernel refuses flow control of a terminal", { action });
      } finally {
        closeSync(fd);
      }
    } catch (thrown) {
      // EIO: the session is gone, so there is nothing to suspend. On other errors, listeners are dropped when they
      // overfill.
      if (systemCode(thrown) !== "EIO") logError("a terminal's output could not be held back", thrown);
    }
  }
}
