/**
 * A CRIU that stays, and forks one that works for each who connects to it. It is loaded and linked once, and not for
 * each restore: that takes longer than all that the server itself does for one.
 *
 * It ends with the server, however that ends. Those that it has forked go on, and notice by their sockets. What it
 * restores are its children, whose ends it takes note of.
 */
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { SystemError } from "../../../base/c-library.ts";
import { scaled } from "../../../base/time-factor.ts";
import { Fault } from "../../../contract/fault.ts";
import { cannotStart, MINIMAL_ENV, toolSession } from "../../../system/command.ts";
import { connectTo } from "../../../system/syscalls.ts";

/** What is there: a folder that is reached by nobody else, for everybody may write to the socket itself. */
const FOLDER_MODE = 0o700;
/** A second time: the first one met one that had been killed and was not known to be. */
const TRIES = 2;
/**
 * CRIU has room for 17 that it has not come to yet. Who finds none looks again so often, for so long: one that was
 * killed for that would take along all who wait for it.
 */
const FULL_LOOK_MS = 2;
const FULL_MAX_MS = scaled(10_000);

interface CriuServiceOptions {
  /** CRIU itself, and what a shell has to do before it becomes that. */
  command: readonly string[];
  before: string;
  /** Where its socket lies, by this name. */
  folder: string;
  name: string;
  /** Where what it starts by a plain name is found first. */
  programs: string;
}

/** A connection to one that waits for its request. */
interface ServedCriu {
  /** Of the socket. */
  fd: number;
  /** The one at work, once it has been told by its request to work in this folder. Throws when there is none. */
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

  /** It is started for the first who comes. */
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
        // What has ended is forgotten before this goes on.
        service.kill("SIGKILL");
        await service.exited;
      }
    }
  }

  /** The same for all who come, until it has ended or could not be started. */
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
    // What it complains of goes to its standard output.
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
        // It must not ignore signals instead: CRIU ends its own helpers by SIGTERM, and would wait for them.
        ...toolSession(),
      });
    } catch (cause) {
      throw cannotStart("criu", cause);
    }
    service.unref();
    // It says one byte when it listens.
    const { done } = await service.stdout.getReader().read();
    if (done) throw new Fault(500, "CRIU ended before it took a request");
    return service;
  }
}

function isFull(thrown: unknown): boolean {
  return thrown instanceof Fault && thrown.cause instanceof SystemError && thrown.cause.code === "EAGAIN";
}

/** Those that were forked last are the last. Some are sandboxes, which have no such folder. */
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
