/**
 * The program of the thread that splices bytes from one connection to another inside the kernel: from a connection into
 * a pipe, from the pipe into the other. It only waits in epoll, so its orders come through a pipe. Its owner owns all
 * descriptors of connections, and closes them after the thread has reported the end of a transfer.
 */
import { closeSync, readSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import {
  END,
  ORDER_BYTES,
  type Order,
  READY,
  readOrders,
  SPLICE_IDLE_PIPES_MAX,
  SPLICES_MAX,
  type TransferResult,
} from "./orders.ts";
import { EAGAIN, Events, pipe } from "./system-calls.ts";
import { SPLICE_PIPE_BYTES, Transfer } from "./transfer.ts";

/** A chunked body without a new chunk for this long is returned to its owner: it may be idle for hours. */
const SPLICE_SILENT_MS = 250;
const ORDERS = 0;

function send(message: TransferResult | typeof READY): void {
  parentPort?.postMessage(message);
}

class SpliceThread {
  // One for each end of each transfer, and one for the orders.
  readonly #events = new Events(2 * SPLICES_MAX + 1);
  readonly #transfers = new Map<number, Transfer>();
  /** Transfers that may have something to move. */
  readonly #waiting = new Set<Transfer>();
  readonly #idlePipes: Transfer["pipe"][] = [];
  readonly #buffer = Buffer.alloc(ORDER_BYTES * SPLICES_MAX);
  #isEnding = false;

  /** `orders`: the read end of the pipe for orders. */
  constructor(private readonly orders: number) {
    this.#events.add(orders, ORDERS, "orders");
  }

  work(): void {
    const happened = (number: number) => this.#happened(number);
    while (!this.#isEnding) {
      const idleMs = this.#transfers.size > 0 ? SPLICE_SILENT_MS : -1;
      this.#events.await(this.#waiting.size > 0 ? 0 : idleMs, happened);
      for (const transfer of this.#waiting) {
        if (transfer.isOver || !transfer.turn()) this.#waiting.delete(transfer);
      }
      const silentMs = performance.now() - SPLICE_SILENT_MS;
      for (const transfer of [...this.#transfers.values()]) {
        if (transfer.isOver || transfer.isSilentSince(silentMs)) this.#end(transfer);
      }
    }
    for (const transfer of [...this.#transfers.values()]) this.#end(transfer);
    for (const ends of this.#idlePipes) closeBoth(ends);
    this.#events.close();
  }

  #happened(number: number): void {
    if (number === ORDERS) {
      const length = readSync(this.orders, this.#buffer);
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

  #begin(order: Order): void {
    const { number, from, to } = order;
    try {
      const transfer = new Transfer(order, this.#idlePipes.pop() ?? pipe(SPLICE_PIPE_BYTES));
      this.#transfers.set(number, transfer);
      this.#waiting.add(transfer);
      const isWatched = this.#events.add(from, 2 * number, "read") && this.#events.add(to, 2 * number + 1, "write");
      if (!isWatched) transfer.error = EAGAIN;
    } catch {
      // No pipe is available.
      send({ number, taken: 0, given: 0, isWhole: false, error: EAGAIN });
    }
  }

  #end(transfer: Transfer): void {
    const { order, pipe: ends, inPipe, taken, isWhole, error } = transfer;
    this.#events.remove(order.from);
    this.#events.remove(order.to);
    this.#transfers.delete(order.number);
    this.#waiting.delete(transfer);
    // A pipe with bytes in it is never reused: they belong to this transfer.
    if (inPipe === 0 && this.#idlePipes.length < SPLICE_IDLE_PIPES_MAX) this.#idlePipes.push(ends);
    else closeBoth(ends);
    send({ number: order.number, taken, given: taken - inPipe, isWhole, error });
  }
}

function closeBoth(ends: Transfer["pipe"]): void {
  for (const fd of ends) closeSync(fd);
}

const thread = new SpliceThread(workerData as number);
send(READY);
thread.work();
