/**
 * Reads a connection, which its owner may pause. Long bodies of all connections share each turn of the event loop: when
 * their time is used up, further bytes wait for the next turn, first come, first served, and those connections are not
 * read meanwhile. A flood of bytes thus slows itself down without delaying short requests.
 */

/** Time that all long bodies together may use per turn of the event loop. */
export const EDGE_TURN_MS = 1;
/** A request or response up to this size never waits for a turn. */
export const EDGE_SHORT_BODY_MAX_BYTES = 64 * 1024;

type Bytes = Buffer<ArrayBuffer>;

interface ReadConnection {
  /** Takes the bytes; the owner may give some back with `later`. */
  take(bytes: Bytes): void;
  /** Pauses the socket itself. */
  pauseReading(): void;
  resumeReading(): void;
}

let spentMs = 0;
let isTurnAwaited = false;
let waiting: Reading[] = [];

export class Reading {
  #late: Bytes | undefined;
  #over: (() => void) | undefined;
  #isHeld = false;
  #isStopped = false;
  #isWaiting = false;
  #bytes = 0;

  constructor(private readonly connection: ReadConnection) {}

  /** Pauses reading until `release`. */
  hold(): void {
    this.#isHeld = true;
    this.#stop();
  }

  release(): void {
    this.#isHeld = false;
    if (this.#late !== undefined) this.#wait();
    else this.#deliver();
  }

  /** Called with bytes from the socket. */
  data(bytes: Bytes): void {
    if (this.#late !== undefined) this.#late = Buffer.concat([this.#late, bytes]);
    else if (this.#bytes >= EDGE_SHORT_BODY_MAX_BYTES && spentMs >= EDGE_TURN_MS) this.later(bytes);
    else this.#take(bytes);
  }

  /** Another request begins, which counts as short at first. */
  beginAnew(): void {
    this.#bytes = 0;
  }

  /** Takes back bytes that are too much for one turn; they are delivered in another. */
  later(bytes: Bytes): void {
    this.#late = this.#late === undefined ? bytes : Buffer.concat([bytes, this.#late]);
    this.#stop();
    if (!this.#isHeld) this.#wait();
  }

  /** The connection is closed: `over` is called after the remaining bytes were delivered. */
  end(over: () => void): void {
    this.#isStopped = false;
    if (this.#late === undefined) over();
    else this.#over = over;
  }

  /** Drops all waiting bytes. */
  drop(): void {
    this.#late = undefined;
    this.#over = undefined;
  }

  /** Called when its turn has come. */
  turn(): void {
    this.#isWaiting = false;
    const late = this.#late;
    if (late === undefined || this.#isHeld) return;
    this.#late = undefined;
    this.#take(late);
    if (this.#late !== undefined) return;
    const over = this.#over;
    this.#over = undefined;
    if (over !== undefined) over();
    else if (!this.#isHeld) this.#deliver();
  }

  #take(bytes: Bytes): void {
    const begunMs = performance.now();
    awaitTurn();
    this.#bytes += bytes.length;
    this.connection.take(bytes);
    spentMs += performance.now() - begunMs;
  }

  #wait(): void {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    waiting.push(this);
    awaitTurn();
  }

  #stop(): void {
    if (this.#isStopped || this.#over !== undefined) return;
    this.#isStopped = true;
    this.connection.pauseReading();
  }

  #deliver(): void {
    if (!this.#isStopped) return;
    this.#isStopped = false;
    this.connection.resumeReading();
  }
}

function awaitTurn(): void {
  if (isTurnAwaited) return;
  isTurnAwaited = true;
  setImmediate(nextTurn);
}

function nextTurn(): void {
  isTurnAwaited = false;
  spentMs = 0;
  const all = waiting;
  waiting = [];
  let done = 0;
  while (done < all.length && spentMs < EDGE_TURN_MS) all[done++]?.turn();
  if (done < all.length) waiting = [...all.slice(done), ...waiting];
  if (waiting.length > 0) awaitTurn();
}
