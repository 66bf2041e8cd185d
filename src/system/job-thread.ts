/**
 * A thread for system calls that may block, so that the server's own thread never waits for them. Jobs run one after
 * another, in order. Error objects do not pass between threads intact, so their fields are sent.
 */
import { errorMessage } from "../base/error-message.ts";
import { Fault } from "../contract/fault.ts";
import { overloaded, shortageOf } from "./overload.ts";

type JobOutcome<Value> = { number: number; value: Value } | JobFailure;

interface JobFailure {
  number: number;
  status: number;
  error: string;
  /** The kernel's code of the resource that the machine is short of, if that is the reason. */
  shortage: string | undefined;
}

function jobFailure(number: number, thrown: unknown): JobFailure {
  const error = errorMessage(thrown);
  return { number, status: Fault.from(thrown).status, error, shortage: shortageOf(thrown) };
}

/** Rebuilds the error for the caller. `what` describes the failed work if the machine is short of a resource. */
function jobFault({ status, error, shortage }: Omit<JobFailure, "number">, what: string): Fault {
  if (shortage !== undefined) return overloaded(`${what} (${shortage})`, new Error(error));
  return status === 503 ? overloaded(error) : new Fault(status, error);
}

interface JobThreadOptions {
  /** The thread's program, which calls `answerJobs`. */
  program: URL;
  /** Describes the work in an error about a shortage. */
  what: string;
  /** Timeout for a job, including the queue before it. The job still runs to its end. Undefined: none. */
  withinMs?: number;
}

interface Waiter<Value> extends PromiseWithResolvers<Value> {
  timer: Timer | undefined;
}

export class JobThread<Job, Value = boolean> {
  #worker: Worker | undefined;
  readonly #waiting = new Map<number, Waiter<Value>>();
  #next = 0;

  /** The thread starts with the first job. */
  constructor(readonly options: JobThreadOptions) {}

  async do(job: Job): Promise<Value> {
    this.#worker ??= this.#start();
    const { what, withinMs } = this.options;
    const number = this.#next++;
    const done = Promise.withResolvers<Value>();
    const late = () => this.#take(number)?.reject(overloaded(`${what} within ${withinMs} ms`));
    const timer = withinMs === undefined ? undefined : setTimeout(late, withinMs);
    this.#waiting.set(number, { ...done, timer });
    this.#worker.postMessage({ number, job });
    return await done.promise;
  }

  close(): void {
    this.#worker?.terminate();
    this.#worker = undefined;
  }

  #start(): Worker {
    const { program, what } = this.options;
    const worker = new Worker(program);
    worker.onmessage = (event: MessageEvent<JobOutcome<Value>>) => {
      const outcome = event.data;
      const waiter = this.#take(outcome.number);
      // Deferred: no other message arrives before this handler returns, so a caller that continued here and waited for
      // one would hang.
      setImmediate(() => {
        if ("error" in outcome) waiter?.reject(jobFault(outcome, what));
        else waiter?.resolve(outcome.value);
      });
    };
    // The next job starts a new thread.
    worker.onerror = (event) => {
      if (this.#worker === worker) this.close();
      const fault = new Fault(500, `${what}: the thread for it has ended`, { cause: new Error(event.message) });
      for (const number of [...this.#waiting.keys()]) this.#take(number)?.reject(fault);
    };
    return worker;
  }

  #take(number: number): Waiter<Value> | undefined {
    const waiter = this.#waiting.get(number);
    this.#waiting.delete(number);
    clearTimeout(waiter?.timer);
    return waiter;
  }
}

/** Runs in the thread: performs jobs and sends the results, except for an error after which the thread must end. */
export function answerJobs<Job, Value = boolean>(
  thread: Worker,
  perform: (job: Job) => Value,
  isFatal: (error: unknown) => boolean = () => false,
): void {
  thread.onmessage = (event: MessageEvent<{ number: number; job: Job }>) => {
    const { number, job } = event.data;
    let outcome: JobOutcome<Value>;
    try {
      outcome = { number, value: perform(job) };
    } catch (error) {
      if (isFatal(error)) throw error;
      outcome = jobFailure(number, error);
    }
    thread.postMessage(outcome);
  };
}
