/**
 * A resident CRIU that forks a worker for each connection. It is loaded and linked once, not for each restore: loading
 * takes longer than all of the server's own work for a restore.
 *
 * The service ends with the server in every case. Its workers continue, and notice the closed sockets. Restored
 * processes are children of the service, which reaps them.
 */
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { SystemError } from "../../../base/c-library.ts";
import { scaled } from "../../../base/time-factor.ts";
import { Fault } from "../../../contract/fault.ts";
import { cannotStart, MINIMAL_ENV, toolSession } from "../../../system/command.ts";
import { connectTo } from "../../../system/syscalls.ts";

/** CRIU makes its socket world-writable, so the folder admits only root. */
const FOLDER_MODE = 0o700;
/** The second try is for a service that was killed without the server knowing. */
const TRIES = 2;
/**
 * CRIU's backlog holds 17 waiting connections. When it is full, the server retries at this interval, for this long:
 * killing the service would also end all that wait for it.
 */
const FULL_LOOK_MS = 2;
const FULL_MAX_MS = scaled(10_000);

interface CriuServiceOptions {
  /** CRIU's command, and the shell commands to run before it. */
  command: readonly string[];
  before: string;
  /** The folder and name of the service's socket. */
  folder: string;
  name: string;
  /** The folder where CRIU looks first for programs that it starts by name. */
  programs: string;
}

/** A connection to a worker that waits for its request. */
interface ServedCriu {
  /** The socket's descriptor. */
  fd: number;
  /** The pid of the worker, once its request told it to work in this folder. Throws when there is none. */
  pidIn(folder: string): number;
}

export class CriuService {
  readonly #options: CriuServiceOptions;
  readonly #socket: string;
  #running: Promise<Bun.Subprocess> | undefined;

  constructor(options: CriuServiceOptions) {
    this.#options = options;
    this.#socket = join(options.folder, options.name);
  }

  /** Starts the service on the first call. */
  async connect(): Promise<ServedCriu> {
    const giveUpMs = performance.now() + FULL_MAX_MS;
    for (let tries = 1; ; ) {
      const service = await this.#service();
      try {
        return { fd: connectTo(this.#socket), pidIn: (folder) => childIn(service.pid, folder) };
      } catch (cause) {
        if (isFull(cause) && performance.now() < giveUpMs) {
          await Bun.sleep(FULL_LOOK_MS);
          continue;
        }
        if (tries++ === TRIES) throw new Fault(503, "CRIU takes no requests", { cause });
        // The ended service is forgotten before the next try.
        service.kill("SIGKILL");
        await service.exited;
      }
    }
  }

  /** One service for all callers, until it ends or fails to start. */
  #service(): Promise<Bun.Subprocess> {
    if (this.#running !== undefined) return this.#running;
    const running = this.#start();
    this.#running = running;
    const forget = () => {
      this.#running = undefined;
    };
    running.then((service) => service.exited.then(forget, forget), forget);
    return running;
  }

  async #start(): Promise<Bun.Subprocess> {
    const { command, before, folder, programs } = this.#options;
    mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
    // CRIU writes its errors to standard output.
    const first = [
      "setpriv",
      "--pdeathsig",
      "KILL",
      "--",
      "/bin/sh",
      "-c",
      `${before}exec "$@" 3>&1 > /dev/null`,
      "sh",
    ];
    let service: Bun.Subprocess<"ignore", "pipe", "ignore">;
    try {
      service = Bun.spawn([...first, ...command, "service", "--address", this.#socket, "--status-fd", "3"], {
        stdin: "ignore",
        stdout: "pipe",
        stderr: "ignore",
        env: { ...MINIMAL_ENV, PATH: `${programs}:${MINIMAL_ENV.PATH}` },
        cwd: "/",
        // The service must not ignore signals: CRIU ends its own helpers with SIGTERM and would wait for them.
        ...toolSession(),
      });
    } catch (cause) {
      throw cannotStart("criu", cause);
    }
    service.unref();
    // CRIU sends one byte when it listens.
    const { done } = await service.stdout.getReader().read();
    if (done) throw new Fault(500, "CRIU ended before it took a request");
    return service;
  }
}

function isFull(thrown: unknown): boolean {
  return thrown instanceof Fault && thrown.cause instanceof SystemError && thrown.cause.code === "EAGAIN";
}

/** The most recent worker comes last. Some children are sandboxes, which have other folders. */
function childIn(parent: number, folder: string): number {
  const { dev, ino } = statSync(folder);
  const children = readFileSync(`/proc/${parent}/task/${parent}/children`, "utf8").trim().split(" ");
  const found = children.findLast((child) => {
    const there = statSync(`/proc/${child}/cwd`, { throwIfNoEntry: false });
    return there?.ino === ino && there.dev === dev;
  });
  if (found === undefined) throw new Fault(500, `no CRIU is at work in ${folder}`);
  return Number(found);
}
