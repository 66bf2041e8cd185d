/**
 * Calls between the server and an edge process: one JSON object per line, in both directions. A call begins when its
 * line arrives, so calls begin in order; results come in any order. A call without an id has no result.
 */
import { Fault, UncertainOutcome } from "../../contract/fault.ts";

// biome-ignore lint/suspicious/noExplicitAny: the arguments of any function.
type Functions<T> = { [Name in keyof T]: (...args: any[]) => unknown };

interface Call {
  id?: number;
  call: string;
  args: unknown[];
}

interface Reply {
  id: number;
  value?: unknown;
  fault?: PlainFault;
}

interface PlainFault {
  status: number;
  message: string;
  errorCode?: string;
  headers: Record<string, string>;
}

type PendingCall = PromiseWithResolvers<unknown>;

/** The line of a call without a result, which can be sent to any number of processes. */
export function callLine<Theirs extends Functions<Theirs>, Name extends keyof Theirs & string = keyof Theirs & string>(
  name: Name,
  ...args: Parameters<Theirs[Name]>
): string {
  return `${JSON.stringify({ call: name, args } satisfies Call)}\n`;
}

export class Channel<Theirs extends Functions<Theirs>> {
  readonly #send: (line: string) => void;
  readonly #own: Readonly<Record<string, unknown>>;
  readonly #pending = new Map<number, PendingCall>();
  #lastId = 0;
  #isClosed = false;

  /** `own`: the functions that the other side may call. */
  constructor(send: (line: string) => void, own: object) {
    this.#send = send;
    this.#own = own as Readonly<Record<string, unknown>>;
  }

  /** Rejects with the other side's Fault, or when the other side is gone. */
  call<Name extends keyof Theirs & string>(
    name: Name,
    ...args: Parameters<Theirs[Name]>
  ): Promise<Awaited<ReturnType<Theirs[Name]>>> {
    if (this.#isClosed) return Promise.reject(gone());
    const id = ++this.#lastId;
    const pending: PendingCall = Promise.withResolvers();
    this.#pending.set(id, pending);
    this.#send(`${JSON.stringify({ id, call: name, args } satisfies Call)}\n`);
    return pending.promise as Promise<Awaited<ReturnType<Theirs[Name]>>>;
  }

  /** Throws on a malformed line. */
  received(line: string): void {
    const message = JSON.parse(line) as Call | Reply;
    if ("call" in message) void this.#perform(message);
    else this.#answered(message);
  }

  /** Call it when the other side is gone. */
  close(): void {
    this.#isClosed = true;
    for (const { reject } of this.#pending.values()) reject(gone());
    this.#pending.clear();
  }

  async #perform({ id, call, args }: Call): Promise<void> {
    const own = Object.hasOwn(this.#own, call) ? this.#own[call] : undefined;
    let answer: Omit<Reply, "id">;
    try {
      if (typeof own !== "function") throw new Error(`unknown call ${JSON.stringify(call)}`);
      answer = { value: await own(...args) };
    } catch (thrown) {
      answer = { fault: plain(thrown) };
    }
    if (id !== undefined && !this.#isClosed) this.#send(`${JSON.stringify({ id, ...answer } satisfies Reply)}\n`);
  }

  #answered({ id, value, fault }: Reply): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (fault === undefined) pending?.resolve(value);
    else pending?.reject(new Fault(fault.status, fault.message, fault));
  }
}

function plain(thrown: unknown): PlainFault {
  const fault = thrown instanceof UncertainOutcome ? Fault.from(thrown) : thrown;
  if (!(fault instanceof Fault)) return { status: 500, message: String(fault), headers: {} };
  const { status, message, errorCode, headers } = fault;
  return { status, message, headers, ...(errorCode !== undefined && { errorCode }) };
}

function gone(): Fault {
  return new Fault(503, "an edge process ended");
}
