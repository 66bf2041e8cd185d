/**
 * Error messages for programs that could not be executed. Clients expect such a process to start and to end with 127 or
 * 126 and a line on stderr, as in a shell. setpriv behaves that way, but its line names setpriv. This file holds that
 * line back and replaces it by one that explains what is wrong with the program.
 */
import { closeSync, openSync, readSync, type Stats, statSync } from "node:fs";
import { endianness } from "node:os";
import { join } from "node:path";
import { quote } from "../system/quote.ts";
import type { Command } from "./command.ts";
import type { OutputKind } from "./output-envelopes.ts";
import type { Exit, OutputSink, ProcessIo } from "./process-io.ts";

/** Bytes read of a file that could not be executed. The kernel reads as many to find an interpreter. */
const PROGRAM_HEAD_BYTES = 256;
/** Maximum length of the system's error text, such as "No such file or directory". */
const SYSTEM_REASON_MAX_CHARS = 256;

const HELPER = "setpriv: ";
/** Search path of the C library when PATH is not set. */
const PATH_WITHOUT_PATH = "/bin:/usr/bin";
const NOT_EXECUTED: readonly (number | null)[] = [126, 127];
/** Exit codes of shells for a program in a format that the kernel does not know: shells run it as a script. */
const NOT_UNDERSTOOD: readonly (number | null)[] = [2, 126, 127];

/** Runs `spawn` with a sink that holds setpriv's own error line back. `command` is the client's command. */
export function withReadableErrors(
  command: Command,
  sink: OutputSink,
  spawn: (sink: OutputSink) => ProcessIo,
): ProcessIo {
  const filter = new SetprivErrorFilter(command, sink);
  const carrier = spawn((kind, chunk) => filter.take(kind, chunk));
  const kind = carrier.kind === "terminal" ? "pty" : "stderr";
  const reported = Promise.all([carrier.exited, carrier.outputEnded]).then(([exit]) => filter.finish(kind, exit));
  return { ...carrier, outputEnded: reported };
}

/** Holds output back as long as it may be setpriv's line about a program that it could not execute. */
class SetprivErrorFilter {
  readonly #line: string;
  #held: string | undefined = "";

  constructor(
    private readonly command: Command,
    private readonly sink: OutputSink,
  ) {
    this.#line = latin1(Buffer.from(`${HELPER}failed to execute ${command.argv0}: `));
  }

  take(kind: OutputKind, chunk: Uint8Array): Promise<unknown> | undefined {
    if (kind === "stdout" || this.#held === undefined) return this.sink(kind, chunk);
    const held = this.#held + latin1(chunk);
    // setpriv's first write contains at least its name, so shorter output of other programs is never delayed.
    const heldBack = this.#held === "" ? held.startsWith(HELPER) : this.#mayBeLine(held);
    if (heldBack && this.#mayBeLine(held)) {
      this.#held = held;
      return undefined;
    }
    this.#held = undefined;
    return this.sink(kind, Buffer.from(held, "latin1"));
  }

  async finish(kind: OutputKind, exit: Exit): Promise<void> {
    const held = this.#held ?? "";
    if (held.startsWith(this.#line) && NOT_EXECUTED.includes(exit.code)) {
      const reason = reasonOf(this.command, held.slice(this.#line.length).trimEnd());
      await this.#report(kind, `${quote(this.command.argv0)} could not be executed: ${reason}`);
      return;
    }
    if (held !== "") await this.sink(kind, Buffer.from(held, "latin1"));
    if (NOT_UNDERSTOOD.includes(exit.code) && isForeign(this.command)) {
      const own = `a program for ${process.arch} nor a script`;
      await this.#report(kind, `${quote(this.command.argv0)} could not be executed: it is neither ${own}`);
    }
  }

  #mayBeLine(held: string): boolean {
    if (held.length > this.#line.length + SYSTEM_REASON_MAX_CHARS) return false;
    return this.#line.startsWith(held) || held.startsWith(this.#line);
  }

  async #report(kind: OutputKind, line: string): Promise<void> {
    await this.sink(kind, Buffer.from(kind === "pty" ? `${line}\r\n` : `${line}\n`));
  }
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
}

interface Program {
  path: string;
  stats: Stats;
}

/** `said` is the system's error text, used when the file itself shows nothing wrong. */
function reasonOf(command: Command, errorText: string): string {
  const program = findFile(command);
  if (program === undefined) {
    return command.argv0.includes("/")
      ? "there is no such file"
      : "there is no such program in the directories of its PATH";
  }
  const at = program.path === command.argv0 ? "it" : quote(program.path);
  if (program.stats.isDirectory()) return `${at} is a directory`;
  if (/^Permission denied$/i.test(errorText)) {
    const mode = (program.stats.mode & 0o777).toString(8).padStart(3, "0");
    return `the user may not execute ${at}, whose mode is ${mode}`;
  }
  if (/^No such file/i.test(errorText)) {
    const interpreter = interpreterOf(program.path);
    if (interpreter === undefined) return `the loader that ${at} needs is not in this sandbox`;
    return `the interpreter ${quote(interpreter)} in the first line of ${at} is not there`;
  }
  return errorText.toLowerCase();
}

/** The file that the kernel was asked to execute, examined as root: the user may be unable to see it. */
function findFile({ argv0, cwd, env }: Command): Program | undefined {
  const folders = argv0.includes("/") ? [""] : (env.PATH ?? PATH_WITHOUT_PATH).split(":");
  for (const folder of folders) {
    const path = argv0.startsWith("/") ? argv0 : join(folder.startsWith("/") ? folder : join(cwd, folder), argv0);
    const stats = statQuietly(path);
    if (stats !== undefined && (stats.isFile() || argv0.includes("/"))) return { path, stats };
  }
  return undefined;
}

function statQuietly(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    // Whatever the error, there is nothing to execute.
    return undefined;
  }
}

function interpreterOf(path: string): string | undefined {
  return /^#![ \t]*([^ \t\n]+)/.exec(latin1(headOf(path)))?.[1];
}

/** Whether the file is neither text nor a program for this processor. */
function isForeign(command: Command): boolean {
  const program = findFile(command);
  if (program === undefined || !program.stats.isFile()) return false;
  const head = headOf(program.path);
  const firstLine = latin1(head).split("\n", 1)[0] ?? "";
  if (!firstLine.includes("\0")) return false;
  return !firstLine.startsWith("\x7fELF") || machineOf(head) !== machineOf(headOf("/proc/self/exe"));
}

/** The processor number in the header of an ELF file. */
function machineOf(head: Buffer): number {
  const MACHINE_AT = 18;
  if (head.length < MACHINE_AT + 2) return -1;
  return endianness() === "LE" ? head.readUInt16LE(MACHINE_AT) : head.readUInt16BE(MACHINE_AT);
}

function headOf(path: string): Buffer {
  try {
    const fd = openSync(path, "r");
    try {
      const head = Buffer.alloc(PROGRAM_HEAD_BYTES);
      return head.subarray(0, readSync(fd, head, 0, head.length, 0));
    } finally {
      closeSync(fd);
    }
  } catch {
    // The file is read only to explain the failure; without it the message is shorter.
    return Buffer.alloc(0);
  }
}
