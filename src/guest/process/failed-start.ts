/**
 * A program that could not be executed, told in our own words. Clients expect such a process to start and to end with
 * 127 or 126 and a line on stderr, as in a shell. The helper that changes the user ends so by itself, but its line
 * names the helper, which nobody asked for: it is kept back and replaced by one that says what is wrong with the
 * program.
 */
import { closeSync, openSync, readSync, type Stats, statSync } from "node:fs";
import { endianness } from "node:os";
import { join } from "node:path";
import { quote } from "../system/quote.ts";
import type { Carrier, Exit, OutputSink } from "./carrier.ts";
import type { Command } from "./command.ts";
import type { OutputKind } from "./output-envelopes.ts";

/** What is read of a file that could not be executed: the kernel looks at as much for an interpreter. */
const PROGRAM_HEAD_BYTES = 256;
/** The system's text for an error, such as "No such file or directory". */
const SYSTEM_REASON_MAX_CHARS = 256;

const HELPER = "setpriv: ";
/** What the C library searches when there is no PATH. */
const PATH_WITHOUT_PATH = "/bin:/usr/bin";
const NOT_EXECUTED: readonly (number | null)[] = [126, 127];
/**
 * What shells answer when they are given a program of a format that the kernel does not know: they take it for a
 * script.
 */
const NOT_UNDERSTOOD: readonly (number | null)[] = [2, 126, 127];

/** Runs `spawn` with a sink that keeps the helper's own words back. `command` is what the client asked for. */
export function inOurWords(command: Command, sink: OutputSink, spawn: (sink: OutputSink) => Carrier): Carrier {
  const words = new HelperWords(command, sink);
  const carrier = spawn((kind, chunk) => words.take(kind, chunk));
  const kind = carrier.kind === "terminal" ? "pty" : "stderr";
  const told = Promise.all([carrier.exited, carrier.outputEnded]).then(([exit]) => words.finish(kind, exit));
  return { ...carrier, outputEnded: told };
}

/** Holds output back as long as it may be the helper's line about a program that it could not execute. */
class HelperWords {
  readonly #command: Command;
  readonly #sink: OutputSink;
  readonly #line: string;
  #held: string | undefined = "";

  constructor(command: Command, sink: OutputSink) {
    this.#command = command;
    this.#sink = sink;
    this.#line = latin1(Buffer.from(`${HELPER}failed to execute ${command.argv0}: `));
  }

  take(kind: OutputKind, chunk: Uint8Array): Promise<unknown> | undefined {
    if (kind === "stdout" || this.#held === undefined) return this.#sink(kind, chunk);
    const held = this.#held + latin1(chunk);
    // Its first piece has at least the helper's name: nobody waits for the rest of another program's word.
    const heldBack = this.#held === "" ? held.startsWith(HELPER) : this.#mayBeLine(held);
    if (heldBack && this.#mayBeLine(held)) {
      this.#held = held;
      return undefined;
    }
    this.#held = undefined;
    return this.#sink(kind, Buffer.from(held, "latin1"));
  }

  async finish(kind: OutputKind, exit: Exit): Promise<void> {
    const held = this.#held ?? "";
    if (held.startsWith(this.#line) && NOT_EXECUTED.includes(exit.code)) {
      const reason = reasonOf(this.#command, held.slice(this.#line.length).trimEnd());
      await this.#say(kind, `${quote(this.#command.argv0)} could not be executed: ${reason}`);
      return;
    }
    if (held !== "") await this.#sink(kind, Buffer.from(held, "latin1"));
    if (NOT_UNDERSTOOD.includes(exit.code) && isForeign(this.#command)) {
      const own = `a program for ${process.arch} nor a script`;
      await this.#say(kind, `${quote(this.#command.argv0)} could not be executed: it is neither ${own}`);
    }
  }

  #mayBeLine(held: string): boolean {
    if (held.length > this.#line.length + SYSTEM_REASON_MAX_CHARS) return false;
    return this.#line.startsWith(held) || held.startsWith(this.#line);
  }

  async #say(kind: OutputKind, line: string): Promise<void> {
    await this.#sink(kind, Buffer.from(kind === "pty" ? `${line}\r\n` : `${line}\n`));
  }
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
}

interface Program {
  path: string;
  stats: Stats;
}

/** `said` is the system's text for the error: all that is known when the file itself shows nothing wrong. */
function reasonOf(command: Command, said: string): string {
  const program = findFile(command);
  if (program === undefined) {
    return command.argv0.includes("/")
      ? "there is no such file"
      : "there is no such program in the directories of its PATH";
  }
  const at = program.path === command.argv0 ? "it" : quote(program.path);
  if (program.stats.isDirectory()) return `${at} is a directory`;
  if (/^Permission denied$/i.test(said)) {
    const mode = (program.stats.mode & 0o777).toString(8).padStart(3, "0");
    return `the user may not execute ${at}, whose mode is ${mode}`;
  }
  if (/^No such file/i.test(said)) {
    const interpreter = interpreterOf(program.path);
    if (interpreter === undefined) return `the loader that ${at} needs is not in this sandbox`;
    return `the interpreter ${quote(interpreter)} in the first line of ${at} is not there`;
  }
  return said.toLowerCase();
}

/** What the kernel would have been asked to execute. Looked at with our rights: a user may not see why not. */
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
    // Whatever the reason: nothing can be executed there.
    return undefined;
  }
}

function interpreterOf(path: string): string | undefined {
  return /^#![ \t]*([^ \t\n]+)/.exec(latin1(headOf(path)))?.[1];
}

/** Neither text nor a program of this machine's own kind. */
function isForeign(command: Command): boolean {
  const program = findFile(command);
  if (program === undefined || !program.stats.isFile()) return false;
  const head = headOf(program.path);
  const firstLine = latin1(head).split("\n", 1)[0] ?? "";
  if (!firstLine.includes("\0")) return false;
  return !firstLine.startsWith("\x7fELF") || machineOf(head) !== machineOf(headOf("/proc/self/exe"));
}

/** From the header of an ELF file: which processor it is for. */
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
    // It is looked at for an explanation only; without it the explanation is a shorter one.
    return Buffer.alloc(0);
  }
}
