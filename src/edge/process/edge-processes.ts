/**
 * The edge as the server has it: several processes that listen on the same ports, all told the same. One that dies, or
 * that does not answer any more, is replaced: what it carried has ended, what it counted is taken away, and the next
 * one is told everything. An address is another sandbox's only when all of them have said that they carry nothing
 * there, or are gone.
 */

import { beginStep, isRecording } from "../../base/steps.ts";
import { scaled } from "../../base/time-factor.ts";
import type { Directory } from "../../contract/internal/directory.ts";
import type { FrontSettings, Fronts, Listening } from "../front/fronts.ts";
import type { InnerDoor } from "../inner-server.ts";
import { type ConnectionLimits, EDGE_PROCESS_PING_MS } from "../limits.ts";
import type { EdgeLog } from "../routing/service-lookup.ts";
import type { ProcessCalls, ServerCalls } from "./calls.ts";
import { toldLine } from "./channel.ts";
import { NumberedRoutes } from "./numbered-routes.ts";
import { ProcessHold, type StartedProcess } from "./process-hold.ts";
import type { SharedCounts } from "./shared-counts.ts";

/** From its start until it listens and knows where all sandboxes are. */
export const EDGE_PROCESS_START_MS = scaled(60_000);
/** One that cannot be started is tried again, after longer and longer pauses up to this. */
const EDGE_PROCESS_RESTART_MAX_MS = 5_000;

interface EdgeOptions {
  /** How many. */
  processes: number;
  start(process: number): StartedProcess;
  directory: Directory;
  management: InnerDoor;
  trustedProxies: readonly string[];
  limits: ConnectionLimits;
  counts: SharedCounts;
  countsFile: string;
  log: EdgeLog;
  /** How often each is asked whether it is of use, if not as often as is usual. */
  pingMs?: number;
}

export class EdgeProcesses implements Fronts {
  readonly #options: EdgeOptions;
  readonly #routes: NumberedRoutes;
  /** By number; undefined while one is being replaced. */
  readonly #holds: (ProcessHold | undefined)[] = [];
  readonly #fronts = new Map<number, FrontSettings>();
  /** Addresses that were told, and that nobody has left since. */
  readonly #addresses = new Set<string>();
  readonly #looking: ReturnType<typeof setInterval>;
  #lastFront = 0;
  #isClosed = false;

  private constructor(options: EdgeOptions) {
    this.#options = options;
    this.#routes = new NumberedRoutes(options.counts);
    this.#looking = setInterval(() => {
      for (const hold of this.#present) hold.ping();
    }, options.pingMs ?? EDGE_PROCESS_PING_MS);
    this.#looking.unref();
  }

  /** Resolves when all of them are there. */
  static async open(options: EdgeOptions): Promise<EdgeProcesses> {
    const edge = new EdgeProcesses(options);
    options.directory.follow((event) => {
      const placed = edge.#routes.take(event);
      for (const route of placed.kind === "table" ? placed.routes : placed.kind === "route" ? [placed.route] : []) {
        edge.#addresses.add(route.endpoint.host);
      }
      const line = toldLine<ProcessCalls>("take", placed);
      // Nobody knows of a route that opens before its sandbox's creator is answered, and who does not know it yet asks.
      const mayWait = placed.kind === "route" && placed.route.isOpen;
      for (const hold of edge.#present) mayWait ? hold.tellSoon(line) : hold.tell(line);
    });
    try {
      const numbers = Array.from({ length: options.processes }, (_, process) => process);
      const holds = await Promise.all(numbers.map((process) => edge.#start(process)));
      for (const [process, hold] of holds.entries()) void edge.#keep(process, hold);
    } catch (cause) {
      await edge.close();
      throw cause;
    }
    return edge;
  }

  async begin(settings: FrontSettings): Promise<Listening> {
    const front = ++this.#lastFront;
    this.#fronts.set(front, settings);
    try {
      await this.#all((hold) => hold.ask("listen", front, settings));
    } catch (cause) {
      await this.#stopFront(front, true);
      throw cause;
    }
    return {
      carriesAnything: async () => (await this.#all((hold) => hold.ask("carriesAnything", front))).includes(true),
      stop: (force) => this.#stopFront(front, force),
    };
  }

  /**
   * Resolves when nothing is carried to this address any more, and nobody is led there by what was told before. One
   * that does not say so is ended.
   */
  async leave(host: string): Promise<void> {
    if (!this.#addresses.delete(host)) return;
    await this.#all((hold) => hold.ask("leave", host));
  }

  /** Ends them all, whatever they carry. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#looking);
    await Promise.all(this.#present.map((hold) => hold.end()));
  }

  get #present(): ProcessHold[] {
    return this.#holds.filter((hold) => hold !== undefined);
  }

  /** Of those that are there. What is asked of one that ends is as good as done: it carries nothing any more. */
  async #all<T>(ask: (hold: ProcessHold) => Promise<T>): Promise<T[]> {
    const answers = await Promise.all(
      this.#present.map(async (hold) => {
        try {
          return [await ask(hold)];
        } catch (cause) {
          if (!hold.isOver) throw cause;
          return [];
        }
      }),
    );
    return answers.flat();
  }

  async #stopFront(front: number, force: boolean): Promise<void> {
    this.#fronts.delete(front);
    await this.#all((hold) => hold.ask("stopListening", front, force));
  }

  /** Resolves when it is there and listens. All that is told meanwhile is told it, too, behind what it begins with. */
  async #start(process: number): Promise<ProcessHold> {
    const { processes, management, trustedProxies, limits, counts, countsFile, directory, log } = this.#options;
    const shared = { countsFile, management, trustedProxies, limits };
    const hold = new ProcessHold(this.#options.start(process), {
      wake: (id, request) => directory.wake(id, request),
      forward: (id, port) => directory.forward(id, port),
      findSigned: (link, client) => directory.findSigned(link, client),
      log,
      ...stepsOfProcess(),
    });
    this.#holds[process] = hold;
    void hold.over.then(() => {
      this.#holds[process] = undefined;
      counts.clear(process);
    });
    try {
      await hold.begin(EDGE_PROCESS_START_MS, () =>
        Promise.all([
          hold.ask("begin", { ...shared, processes, process, recordsSteps: isRecording() }),
          hold.ask("take", this.#routes.table),
          ...[...this.#fronts].map(([front, settings]) => hold.ask("listen", front, settings)),
        ]),
      );
    } catch (cause) {
      await hold.end();
      throw cause;
    }
    return hold;
  }

  /** There is always one with this number, or there will be. */
  async #keep(process: number, first: ProcessHold): Promise<void> {
    let hold: ProcessHold | undefined = first;
    for (let fails = 0; ; ) {
      const how = await hold?.over;
      if (this.#isClosed) return;
      if (how !== undefined) {
        this.#options.log("a process of the edge ended, with what it carried, and is started again", { process, how });
      }
      hold = await this.#start(process).catch((failure: unknown) => {
        this.#options.log("a process of the edge could not be started", { process, failure });
        return undefined;
      });
      fails = hold === undefined ? fails + 1 : 0;
      if (hold === undefined) await Bun.sleep(Math.min(EDGE_PROCESS_RESTART_MAX_MS, 2 ** Math.min(fails, 16)));
    }
  }
}

/** Steps of a process are shown among those of the server. */
function stepsOfProcess(): Pick<ServerCalls, "stepBegan" | "stepEnded"> {
  const open = new Map<number, ReturnType<typeof beginStep>>();
  return {
    stepBegan(number, name) {
      if (isRecording()) open.set(number, beginStep(name));
    },
    stepEnded(number, as) {
      open.get(number)?.(as);
      open.delete(number);
    },
  };
}
