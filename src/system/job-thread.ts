/**
 * A thread for system calls that may take a while, so that the server's own thread never waits for them: jobs are done
 * one after another, in order. Errors do not come whole from another thread.
 */
import { Fault } from "../contract/fault.ts";
import { overloaded, shortageOf } from "./overload.ts";

type JobOutcome = { number: number; value: boolean } | JobFailure;

interface JobFailure {
  number: number;
  status: number;
  error: string;
  /** The kernel's word for what the machine is short of, if that is the reason. */
  shortage: string | undefined;
}

function jobFailure(number: number, thrown: unknown): JobFailure {
  const error = thrown instanceof Error ? thrown.message : String(thrown);
  return { number, status: Fault.from(thrown).status, error, shortage: shortageOf(thrown) };
}

/** The same again, for whoever asked for the job. `what` could not be done if the machine is short of something. */
function jobFault({ status, error, shortage }: Omit<JobFailure, "number">, what: string): Fault {
  if (shortage !== undefined) return overloaded(`${what} (${shortage})`, new Error(error));
  return status === 503 ? overloaded(error) : new Fault(status, error);
}

interface JobThreadOptions {
  /** The program of the thread, which calls `answerJobs`. */
  program: URL;
  /** What cannot be done when the machine is short of something. */
  what: string;
  /** Nobody waits longer for a job, with those before it. It is done all the same. */
  withinMs: number;
}

interface Waiter extends PromiseWithResolvers<boolean> {
  timer: Timer;
}

export class JobThread<Job> {
  readonly #options: JobThreadOptions;
  #worker: Worker | undefined;
  readonly #waiting = new Map<number, Waiter>();
  #next = 0;

  /** It is started with the first job. */
  constructor(options: JobThreadOptions) {
    this.#options = options;
  }

  async do(job: Job): Promise<boolean> {
    this.#worker ??= this.#start();
    const { what, withinMs } = this.#options;
    const number = this.#next++;
    const done = Promise.withResolvers<boolean>();
    const late = () => this.#take(number)?.reject(overloaded(`${what} within ${withinMs} ms`));
    this.#waiting.set(number, { ...done, timer: setTimeout(late, withinMs) });
    this.#worker.postMessage({ number, job });
    return await done.promise;
  }

  close(): void {
    this.#worker?.terminate();
    this.#worker = undefined;
  }

  #start(): Worker {
    const { program, what } = this.#options;
    const worker = new Worker(program);
    worker.onmessage = (event: MessageEvent<JobOutcome>) => {
      const outcome = event.data;
      const waiter = this.#take(outcome.number);
      // Not from in here: until this returns no other message comes, whoever goes on from here and waits for one.
      setImmediate(() => {
        if ("error" in outcome) waiter?.reject(jobFault(outcome, what));
        else waiter?.resolve(outcome.value);
      });
    };
    // The next job has a new thread.
    worker.onerror = (event) => {
      if (this.#worker === worker) this.close();
      const fault = new Fault(500, `${what}: the thread for it has ended`, { cause: new Error(event.message) });
      for (const number of [...this.#waiting.keys()]) this.#take(number)?.reject(fault);
    };
    return worker;
  }

  #take(number: number): Waiter | undefined {
    const waiter = this.#waiting.get(number);
    this.#waiting.delete(number);
    clearTimeout(waiter?.timer);
    return waiter;
  }
}

/** In the thread: what comes of a job is answered, but for an error after which the thread must not go on. */
export function answerJobs<Job>(
  thread: Worker,
  perform: (job: Job) => boolean,
  isFatal: (error: unknown) => boolean = () => false,
): void {
  thread.onmessage = (event: MessageEvent<{ number: number; job: Job }>) => {
    const { number, job } = event.data;
    let outcome: JobOutcome;
    try {
      outcome = { number, value: perform(job) };
    } catch (error) {
      if (isFatal(error)) throw error;
      outcome = jobFailure(number, error);
    }
    thread.postMessage(outcome);
  };
}
