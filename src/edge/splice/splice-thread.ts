/**
 * The thread that moves bytes from one connection to another, within the kernel: from a connection into a pipe, from
 * the pipe into the other one. It waits for the kernel and for nothing else, so it is told what to do by a pipe. All
 * descriptors of connections are its owner's, who closes them when it has said that a transfer is over.
 */
import { closeSync, readSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { EAGAIN, Events, pipe } from "./calls.ts";
import { SPLICE_IDLE_PIPES_MAX, SPLICE_PIPE_BYTES, SPLICES_MAX } from "./limits.ts";
import { END, ORDER_BYTES, type Order, type Outcome, READY, readOrders, type SpliceThreadData } from "./orders.ts";
import { Transfer } from "./transfer.ts";

/** A body in chunks of which none follows for so long is given back: it may be silent for hours. */
const SPLICE_SILENT_MS = 250;

const ORDERS = 0;

/** Returns when it is told to end. */
export function runSpliceThread(): void {
  const { orders } = workerData as SpliceThreadData;
  const thread = new SpliceThread(orders);
  tell(READY);
  thread.work();
}

function tell(told: Outcome | typeof READY): void {
  parentPort?.postMessage(told);
}

class SpliceThread {
  readonly #orders: number;
  // One for each end of each transfer, and that of the orders.
  readonly #events = new Events(2 * SPLICES_MAX + 1);
  readonly #transfers = new Map<number, Transfer>();
  /** Of which something can perhaps be moved. */
  readonly #waiting = new Set<Transfer>();
  readonly #idlePipes: Transfer["pipe"][] = [];
  readonly #buffer = Buffer.alloc(ORDER_BYTES * SPLICES_MAX);
  /** How many transfers are. */
  #inChunks = 0;
  #lookAtMs = 0;
  #isEnding = false;

  constructor(orders: number) {
    this.#orders = orders;
    this.#events.add(orders, ORDERS, "orders");
  }

  work(): void {
    const happened = (number: number) => this.#happened(number);
    while (!this.#isEnding) {
      this.#events.await(this.#awaitMs(), happened);
      for (const transfer of this.#waiting) {
        if (transfer.isOver || !transfer.turn()) this.#waiting.delete(transfer);
      }
      for (const transfer of [...this.#transfers.values()]) if (transfer.isOver) this.#end(transfer);
      if (this.#inChunks > 0) this.#endSilent();
    }
    for (const transfer of [...this.#transfers.values()]) this.#end(transfer);
    for (const ends of this.#idlePipes) closeBoth(ends);
    this.#events.close();
  }

  /** Nothing else happens meanwhile; -1: for as long as nothing does. */
  #awaitMs(): number {
    if (this.#waiting.size > 0) return 0;
    return this.#inChunks > 0 ? SPLICE_SILENT_MS : -1;
  }

  #happened(number: number): void {
    if (number === ORDERS) {
      const length = readSync(this.#orders, this.#buffer);
      for (const order of readOrders(this.#buffer.subarray(0, length))) this.#follow(order);
      return;
    }
    const transfer = this.#transfers.get(number >>> 1);
    if (transfer === undefined) return;
    if (number % 2 === 0) transfer.isReadable = true;
    else transfer.isWritable = true;
    this.#waiting.add(transfer);
  }

  #follow(order: Order): void {
    if (order.number === END.number) this.#isEnding = true;
    else if (order.bytes > 0) this.#begin(order);
    else {
      const transfer = this.#transfers.get(order.number);
      if (transfer !== undefined) this.#end(transfer);
    }
  }

  /** One that somebody may have forgotten holds no place that others can use. */
  #endSilent(): void {
    const nowMs = performance.now();
    if (nowMs < this.#lookAtMs) return;
    this.#lookAtMs = nowMs + SPLICE_SILENT_MS;
    for (const transfer of [...this.#transfers.values()]) {
      if (transfer.isSilentSince(nowMs - SPLICE_SILENT_MS)) this.#end(transfer);
    }
  }

  #begin(order: Order): void {
    const { number, from, to } = order;
    try {
      const transfer = new Transfer(order, this.#idlePipes.pop() ?? pipe(SPLICE_PIPE_BYTES));
      this.#transfers.set(number, transfer);
      if (order.inChunks) this.#inChunks += 1;
      this.#waiting.add(transfer);
      const isWatched = this.#events.add(from, 2 * number, "read") && this.#events.add(to, 2 * number + 1, "write");
      if (!isWatched) transfer.error = EAGAIN;
    } catch {
      // There is no pipe to be had.
      tell({ number, taken: 0, given: 0, isWhole: false, error: EAGAIN });
    }
  }

  #end(transfer: Transfer): void {
    const { order, pipe: ends, inPipe, taken, isWhole, error } = transfer;
    if (order.inChunks) this.#inChunks -= 1;
    this.#events.remove(order.from);
    this.#events.remove(order.to);
    this.#transfers.delete(order.number);
    this.#waiting.delete(transfer);
    // Never one with bytes in it: they are somebody's.
    if (inPipe === 0 && this.#idlePipes.length < SPLICE_IDLE_PIPES_MAX) this.#idlePipes.push(ends);
    else closeBoth(ends);
    tell({ number: order.number, taken, given: taken - inPipe, isWhole, error });
  }
}

function closeBoth(ends: Transfer["pipe"]): void {
  for (const fd of ends) closeSync(fd);
}
