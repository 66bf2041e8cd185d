/** Which sandboxes can be reached now, so that the edge need not ask the store for every request. */
interface Run {
  /** Aborted once the run is over, for those who carry bytes to it. */
  over: AbortController;
  hidden: boolean;
}

export class Reachability {
  readonly #runs = new Map<string, Run>();

  /** A run has begun. */
  begin(id: string): void {
    this.#runs.set(id, { over: new AbortController(), hidden: false });
  }

  /** Nobody new reaches it; what is carried already goes on, because it may turn out that it stays. */
  hide(id: string): void {
    const run = this.#runs.get(id);
    if (run !== undefined) run.hidden = true;
  }

  show(id: string): void {
    const run = this.#runs.get(id);
    if (run !== undefined) run.hidden = false;
  }

  isHidden(id: string): boolean {
    return this.#runs.get(id)?.hidden === true;
  }

  /** The run is over, and all that is carried to it ends. */
  end(id: string): void {
    const run = this.#runs.get(id);
    this.#runs.delete(id);
    run?.over.abort(new Error("the sandbox has been paused or has ended"));
  }

  /** Undefined: it cannot be reached. Otherwise the signal that tells of the run's end. */
  reachable(id: string): AbortSignal | undefined {
    const run = this.#runs.get(id);
    return run === undefined || run.hidden ? undefined : run.over.signal;
  }
}
