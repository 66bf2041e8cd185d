/**
 * A process that serves the content of one volume. It has its own user, pid, network and ipc namespaces: it is root for
 * the ids of sandboxes, which have no rights on the machine, and chroots into the volume before its first request. So
 * changes that sandboxes make to the tree cannot lead it elsewhere, and a call that hangs blocks only itself.
 */
import { chownSync, closeSync, mkdirSync, openSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { boundedLines } from "../../base/bounded-lines.ts";
import { stderrLog } from "../../base/log.ts";
import { writeToStdin } from "../../base/program-stdin.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { cannotStart, IGNORE_STOP_SIGNALS, MINIMAL_ENV } from "../../system/command.ts";
import { HOST_ID_FIRST, ID_COUNT } from "../../system/id-range.ts";
import { USUAL_SCORE } from "../../system/oom-score.ts";
import { overloaded } from "../../system/overload.ts";
import type { HeldVolume } from "./volume-disks.ts";

/** Timeout of a call. For file content it applies to each piece. */
const CONTENT_CALL_MS = scaled(120_000);
const CONTENT_START_MS = scaled(10_000);
const CONTENT_END_MS = scaled(1_000);
const CONTENT_LINE_MAX_BYTES = 64 * 1024;

/** Capabilities to reach all entries of a tree, to set their owners and modes, and to chroot. */
const CAPABILITIES = "-all,+chown,+dac_override,+fowner,+fsetid,+sys_chroot";
const NAMESPACES = ["--user", "--keep-caps", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts"];
/** The mapped root may not be able to reach the runtime's path, so the runtime is passed as an open file. */
const RUNTIME = "/proc/self/fd/3";
const START = `${IGNORE_STOP_SIGNALS}echo namespaces; read go && exec setpriv --reuid=0 --regid=0 --clear-groups --no-new-privs \
--bounding-set=${CAPABILITIES} -- ${RUNTIME} "$@"`;

export class ContentProcess {
  private constructor(
    readonly socket: string,
    readonly child: ReturnType<typeof spawn>,
  ) {}

  /** `folder` is for the socket; `program` is the bundled program. Takes over the volume, even when it throws. */
  static async start(volume: HeldVolume, folder: string, program: string): Promise<ContentProcess> {
    const socket = join(folder, "socket");
    let child: ReturnType<typeof spawn>;
    try {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      chownSync(folder, HOST_ID_FIRST, HOST_ID_FIRST);
      child = spawn([program, volume.path, socket]);
    } catch (cause) {
      volume[Symbol.dispose]();
      throw cannotStart("unshare", cause);
    }
    const started = new ContentProcess(socket, child);
    void child.exited.then(() => volume[Symbol.dispose]());
    const late = setTimeout(() => child.kill("SIGKILL"), CONTENT_START_MS);
    try {
      const lines = boundedLines(child.stdout, CONTENT_LINE_MAX_BYTES);
      await expectLine(lines, "namespaces");
      const map = `0 ${HOST_ID_FIRST} ${ID_COUNT}\n`;
      for (const file of ["uid_map", "gid_map"]) writeFileSync(`/proc/${child.pid}/${file}`, map);
      writeFileSync(`/proc/${child.pid}/oom_score_adj`, String(USUAL_SCORE));
      await writeToStdin(child.stdin, "\n");
      await expectLine(lines, "ready");
      return started;
    } catch (cause) {
      await started.end();
      throw overloaded("a process for the content of a volume could not be started", cause);
    } finally {
      clearTimeout(late);
    }
  }

  /** Resolves when the operation responds; the body may still be streaming. */
  async ask(
    operation: string,
    about: Record<string, unknown>,
    body: ReadableStream<Uint8Array> | null = null,
  ): Promise<Response> {
    const stop = new AbortController();
    // An upload may take as long as data keeps coming.
    const timer = body === null ? setTimeout(() => stop.abort(), CONTENT_CALL_MS) : undefined;
    let response: Response;
    try {
      response = await fetch(`http://volume/${operation}?${encodeURIComponent(JSON.stringify(about))}`, {
        method: "POST",
        body,
        signal: stop.signal,
        unix: this.socket,
        keepalive: false,
        timeout: false,
        proxy: false,
      });
    } catch (cause) {
      if (stop.signal.aborted) throw overloaded(`the volume did not answer within ${CONTENT_CALL_MS} ms`, cause);
      throw new Fault(503, "the volume's content cannot be reached just now; try again", { cause });
    } finally {
      clearTimeout(timer);
    }
    if (response.ok) return response;
    const { message } = (await response.json()) as { message: string };
    throw new Fault(response.status, message);
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  async end(): Promise<void> {
    // The process ends when its stdin closes; a hung one is killed.
    const late = setTimeout(() => this.child.kill("SIGKILL"), CONTENT_END_MS);
    await this.child.stdin.end();
    await this.child.exited.finally(() => clearTimeout(late));
  }
}

function spawn(args: readonly string[]) {
  const runtime = openSync(process.execPath, "r");
  try {
    const child = Bun.spawn(["unshare", ...NAMESPACES, "--", "/bin/sh", "-c", START, "sh", ...args], {
      stdio: ["pipe", "pipe", "pipe", runtime],
      env: { ...MINIMAL_ENV },
      cwd: "/",
    });
    void logLines(child.stderr);
    return child;
  } finally {
    closeSync(runtime);
  }
}

async function logLines(stream: ReadableStream<Uint8Array>): Promise<void> {
  try {
    for await (const error of boundedLines(stream, CONTENT_LINE_MAX_BYTES)) {
      if (error !== "") stderrLog.write({ level: "error", event: "the content of a volume", error });
    }
  } catch {
    // The stream is over.
  }
}

async function expectLine(lines: AsyncGenerator<string>, expected: string): Promise<void> {
  const { value } = await lines.next();
  if (value !== expected) throw new Error(`it said ${JSON.stringify(value)} instead of "${expected}"`);
}
