/**
 * Splices long bodies from one connection to the other inside the kernel. It costs a quarter of the processor time of
 * copying them through the edge, for plain HTTP: direct, or behind a TLS terminator in front of the server. Connections
 * with the edge's own TLS are copied.
 *
 * The splicer hands two descriptors and a number of bytes to a thread. The thread starts at the first use; until it is
 * ready, the edge copies.
 */
import { closeSync, writeSync } from "node:fs";
import { Worker } from "node:worker_threads";
import type { Splice, Spliced, SpliceRequest, Splicing } from "../../base/splicing.ts";
import { END, ORDER_BYTES, type Order, READY, SPLICES_MAX, type TransferResult, writtenOrder } from "./orders.ts";
import { disconnect, duplicate, EINVAL, ENOSYS, pipe } from "./system-calls.ts";

/** Transfer numbers wrap around above this. */
const SPLICE_NUMBERS = 1_000_000_000;

interface Held {
  descriptors: readonly number[];
  over(spliced: Spliced): void;
}

export class Splicer implements Splice {
  #thread: Worker | undefined;
  #orders = -1;
  #isReady = false;
  #isBroken = false;
  #last = 0;
  readonly #held = new Map<number, Held>();

  /** `program` is the bundled `splice-thread.ts`. */
  constructor(private readonly program: string | URL) {}

  begin(
    { from, to, bytes, cuts, inChunks = false }: SpliceRequest,
    over: (spliced: Spliced) => void,
  ): Splicing | undefined {
    if (!this.#isReady) {
      this.#start();
      return undefined;
    }
    if (this.#held.size >= SPLICES_MAX) return undefined;
    const own = [duplicate(from), duplicate(to)] as const;
    if (own[0] < 0 || own[1] < 0) {
      closeAll(own);
      return undefined;
    }
    const number = this.#free();
    this.#held.set(number, { descriptors: own, over });
    this.#order({ number, from: own[0], to: own[1], bytes, inChunks });
    return this.#splicing(number, own[cuts === "from" ? 0 : 1]);
  }

  /** Stops transfers in progress. */
  close(): void {
    if (this.#isReady) this.#order(END);
    this.#break();
  }

  #splicing(number: number, cuttable: number): Splicing {
    const held = this.#held.get(number);
    const isUnderWay = () => held !== undefined && this.#held.get(number) === held;
    let isStopped = false;
    const stop = () => {
      if (!isUnderWay() || isStopped) return;
      isStopped = true;
      this.#order({ number, from: -1, to: -1, bytes: 0, inChunks: false });
    };
    const cut = () => {
      // Not after the end: its descriptors may belong to another connection by then.
      if (isUnderWay()) disconnect(cuttable);
      stop();
    };
    return { stop, cut };
  }

  #free(): number {
    do this.#last = (this.#last % SPLICE_NUMBERS) + 1;
    while (this.#held.has(this.#last));
    return this.#last;
  }

  #order(order: Order): void {
    writeSync(this.#orders, writtenOrder(order));
  }

  #start(): void {
    if (this.#thread !== undefined || this.#isBroken) return;
    try {
      const [read, write] = pipe(SPLICES_MAX * ORDER_BYTES);
      this.#orders = write;
      const thread = new Worker(this.program, { workerData: read });
      this.#thread = thread;
      thread.unref();
      thread.on("message", (message: TransferResult | typeof READY) => {
        if (message === READY) this.#isReady = true;
        else this.#over(message);
      });
      thread.on("error", () => this.#break());
      thread.on("exit", () => {
        this.#break();
        closeAll([read, write]);
      });
    } catch {
      this.#break();
    }
  }

  #over({ number, taken, given, isWhole, error }: TransferResult): void {
    const held = this.#held.get(number);
    if (held === undefined) return;
    this.#held.delete(number);
    closeAll(held.descriptors);
    if (error === EINVAL || error === ENOSYS) this.#isReady = false;
    held.over({ taken, given, isWhole, couldNot: error !== 0 && taken === 0 });
  }

  /** Permanent: from then on the edge copies all bodies. */
  #break(): void {
    this.#isReady = false;
    this.#isBroken = true;
    for (const [number] of [...this.#held]) this.#over({ number, taken: 0, given: 0, isWhole: false, error: 0 });
  }
}

function closeAll(descriptors: readonly number[]): void {
  for (const fd of descriptors) if (fd >= 0) closeSync(fd);
}
