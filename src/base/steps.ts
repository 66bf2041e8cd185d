/**
 * What a piece of work spends its time on: steps within steps, each with the time that passed and what it used of the
 * processors. Nothing is recorded unless somebody asked for it; a step costs one comparison then.
 */
import { AsyncLocalStorage } from "node:async_hooks";

/** Milliseconds of processor time, by who used them. */
export type Uses = Readonly<Record<string, number>>;

export interface Step {
  /** Of one recording; a step has a higher one than what it is within. */
  number: number;
  /** The step that it is a part of. */
  within: number | null;
  name: string;
  /** In milliseconds since 1970. */
  beganAt: number;
  wallMs: number;
  uses: Uses;
  failed?: true;
}

interface Recording {
  /** Counters that only rise. */
  read(): Uses;
  /** Told of each when it begins, if that is of use. */
  began?(number: number, name: string): void;
  write(step: Step): void;
}

interface OpenStep {
  number: number;
  within: OpenStep | undefined;
  /** What no counter of ours shows; that of what is within it as well. */
  noted: Map<string, number>;
}

const around = new AsyncLocalStorage<OpenStep>();
let recording: Recording | undefined;
let last = 0;

/** From now on; undefined: not any more. */
export function recordSteps(wanted: Recording | undefined): void {
  recording = wanted;
}

/** Does the work, which counts as a step until what it answers is there. */
export function step<T>(name: string, work: () => T): T {
  if (recording === undefined) return work();
  const { open, end } = begin(recording, name);
  return around.run(open, () => {
    let result: T;
    try {
      result = work();
    } catch (thrown) {
      end(true);
      throw thrown;
    }
    if (!(result instanceof Promise)) {
      end();
      return result;
    }
    return result.then(
      (value) => {
        end();
        return value;
      },
      (thrown: unknown) => {
        end(true);
        throw thrown;
      },
    ) as T;
  });
}

/** A step of another process, as that saw it: what only it knows. */
type Elsewhere = Pick<Step, "beganAt" | "wallMs" | "uses">;

/** For a step that is no one call: it is over when the answer is called. */
export function beginStep(name: string): (elsewhere?: Elsewhere) => void {
  if (recording === undefined) return nothing;
  const { end } = begin(recording, name);
  return (elsewhere) => end(false, elsewhere);
}

/** What the step around this used where no counter of the recording shows it. */
export function noteUse(who: string, ms: number): void {
  if (recording === undefined) return;
  // All that it is within, also where that is over: whoever is asked about it was there first.
  for (let open = around.getStore(); open !== undefined; open = open.within) {
    open.noted.set(who, (open.noted.get(who) ?? 0) + ms);
  }
}

/** True: what it takes to know more of a step is worth it. */
export function isRecording(): boolean {
  return recording !== undefined;
}

/** How a call is named as a step, from its arguments. */
// biome-ignore lint/suspicious/noExplicitAny: what the arguments are is known where the names are given.
type Naming = string | ((...args: any[]) => string);
type Callable<T> = { [Key in keyof T as T[Key] extends (...args: never[]) => unknown ? Key : never]?: Naming };

/** Calls of these methods are steps from now on. For an object, or for the prototype of a class. */
export function stepsOf<T extends object>(subject: T, names: Callable<T>): void {
  for (const [key, naming] of Object.entries(names) as [keyof T, Naming][]) {
    const method = subject[key] as (...args: unknown[]) => unknown;
    const asStep = function (this: unknown, ...args: unknown[]) {
      return step(typeof naming === "string" ? naming : naming(...args), () => method.apply(this, args));
    };
    subject[key] = asStep as T[keyof T];
  }
}

function begin({ read, began, write }: Recording, name: string) {
  const open: OpenStep = { number: ++last, within: around.getStore(), noted: new Map() };
  began?.(open.number, name);
  const beganAt = performance.timeOrigin + performance.now();
  const before = read();
  let isOver = false;
  const end = (failed = false, elsewhere?: Elsewhere) => {
    if (isOver) return;
    isOver = true;
    const after = read();
    const wallMs = performance.timeOrigin + performance.now() - beganAt;
    const counted = Object.entries(after).map(([who, ms]) => [who, ms - (before[who] ?? 0)]);
    const uses = Object.fromEntries([...counted, ...open.noted, ...Object.entries(elsewhere?.uses ?? {})]);
    const { number, within } = open;
    const times = { beganAt: elsewhere?.beganAt ?? beganAt, wallMs: elsewhere?.wallMs ?? wallMs };
    write({ number, within: within?.number ?? null, name, ...times, uses, ...(failed ? { failed } : {}) });
  };
  return { open, end };
}

function nothing(): void {
  // Nobody records.
}
