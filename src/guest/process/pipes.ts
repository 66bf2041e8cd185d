/**
 * A process on pipes. They are real pipes owned by the process's user: Bun's own are sockets, which a program cannot
 * open as /dev/stdout. Output is read only as fast as listeners take it, so a full pipe blocks the process. Input is
 * written in slices; each slice waits until the pipe has taken the one before.
 */
import { closeSync, existsSync, fchownSync } from "node:fs";
import { openPipe } from "../../base/c-library.ts";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { GUEST_MOUNT } from "../../contract/runtime/guest-programs.ts";
import { INPUT_SLICE_MAX_BYTES } from "../limits.ts";
import { logError } from "../system/log.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { Command } from "./command.ts";
import { readOutput } from "./output-reading.ts";
import { lowerBelowGuest } from "./priority.ts";
import type { OutputSink, ProcessIo } from "./process-io.ts";
import { setBlocking, setNonBlocking, waitingInPipe } from "./system-calls.ts";

/** Maximum outputs handed over when the guest is replaced; each gets its own reader process. */
const OUTPUTS_HANDED_OVER_MAX = 256;

export function spawnOnPipes(command: Command, withStdin: boolean, sink: OutputSink): ProcessIo {
  const ends = new PipeEnds(command);
  try {
    const input = withStdin ? ends.open("writeEnd", "readEnd") : undefined;
    const stdout = ends.open("readEnd", "writeEnd");
    const stderr = ends.open("readEnd", "writeEnd");
    const child = Bun.spawn(command.argv, {
      argv0: command.argv0,
      cwd: command.cwd,
      env: command.env,
      stdin: input?.theirs ?? "ignore",
      stdout: stdout.theirs,
      stderr: stderr.theirs,
    });
    lowerBelowGuest(child.pid);
    ends.closeChildEnds();
    const outputs = [new Output(stdout.ours, "stdout", sink), new Output(stderr.ours, "stderr", sink)];
    const stdin = new Stdin(input?.ours);
    return {
      kind: "pipes",
      pid: child.pid,
      exited: child.exited.then(() => ({ code: child.exitCode, signal: child.signalCode })),
      outputEnded: Promise.all(outputs.map(({ ended }) => ended)).then(() => undefined),
      hasOutput: () => outputs.some((output) => output.isWaiting()),
      write: (bytes) => stdin.write(bytes),
      closeInput: () => stdin.close(),
      resize() {
        throw refuse("internal", "this process has no terminal to resize");
      },
      kill: (signal) => child.kill(signal),
      // The output pipes stay open, so that a descendant that outlives the process can write without SIGPIPE.
      release: () => stdin.close(),
    };
  } catch (thrown) {
    ends.closeAll();
    throw thrown;
  }
}

/** The pipes of a starting process, so that all are closed if the start fails. */
class PipeEnds {
  readonly #ours: number[] = [];
  readonly #theirs: number[] = [];

  constructor(private readonly command: Command) {}

  /** A new pipe, by the end that the guest keeps and the end of the process. */
  open(own: "readEnd" | "writeEnd", other: "readEnd" | "writeEnd"): { ours: number; theirs: number } {
    const { [own]: ours, [other]: theirs } = openPipe();
    this.#ours.push(ours);
    this.#theirs.push(theirs);
    setNonBlocking(ours);
    fchownSync(theirs, this.command.uid, this.command.gid);
    return { ours, theirs };
  }

  closeChildEnds(): void {
    for (const fd of this.#theirs.splice(0)) closeSync(fd);
  }

  closeAll(): void {
    this.closeChildEnds();
    for (const fd of this.#ours.splice(0)) closeSync(fd);
  }
}

class Stdin {
  #open: { fd: number; sink: Bun.FileSink } | undefined;

  constructor(fd: number | undefined) {
    this.#open = fd === undefined ? undefined : { fd, sink: Bun.file(fd).writer() };
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += INPUT_SLICE_MAX_BYTES) {
      if (this.#open === undefined) throw refuse("internal", "stdin of this process is not open");
      await this.#open.sink.write(bytes.subarray(at, at + INPUT_SLICE_MAX_BYTES));
      await this.#open.sink.flush();
    }
  }

  /** Must not run during a write: its bytes could go to another file that gets the same descriptor number. */
  async close(): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    if (open === undefined) return;
    try {
      await open.sink.end();
    } catch (thrown) {
      // Input that the process never read is lost; that is not a failure.
      if (systemCode(thrown) !== "EPIPE") logError("closing a process's stdin failed", thrown);
    } finally {
      closeSync(open.fd);
    }
  }
}

/** The guest's ends of the output pipes. */
const openOutputs = new Set<number>();
let areHandedOver = false;

/** Starts readers that discard output after the guest ends. Without them, writers would die of SIGPIPE or block. */
export function handOutputsOver(): void {
  if (openOutputs.size > OUTPUTS_HANDED_OVER_MAX) {
    throw new Fault(409, `at most ${OUTPUTS_HANDED_OVER_MAX} outputs can be handed over; ${openOutputs.size} are open`);
  }
  const ours = `${GUEST_MOUNT}/bin/busybox`;
  const reader = existsSync(ours) ? [ours, "cat"] : ["cat"];
  areHandedOver = true;
  for (const fd of openOutputs) {
    setBlocking(fd);
    Bun.spawn(reader, { stdin: fd, stdout: "ignore", stderr: "ignore", env: {}, cwd: "/" }).unref();
  }
}

/** One output of a process, read to its end. */
class Output {
  readonly ended: Promise<void>;
  #isOpen = true;
  #isHeld = false;

  constructor(
    private readonly fd: number,
    kind: "stdout" | "stderr",
    sink: OutputSink,
  ) {
    this.ended = this.#read(kind, sink);
  }

  isWaiting(): boolean {
    return this.#isOpen && (this.#isHeld || waitingInPipe(this.fd) > 0);
  }

  async #read(kind: "stdout" | "stderr", sink: OutputSink): Promise<void> {
    openOutputs.add(this.fd);
    const take = (piece: Uint8Array) => {
      const full = sink(kind, piece);
      if (full === undefined) return undefined;
      this.#isHeld = true;
      return full.finally(() => {
        this.#isHeld = false;
      });
    };
    try {
      await readOutput(this.fd, take, () => areHandedOver);
    } catch (thrown) {
      logError("reading a process's output failed", thrown, { kind });
    } finally {
      this.#isOpen = false;
      openOutputs.delete(this.fd);
      closeSync(this.fd);
    }
  }
}
