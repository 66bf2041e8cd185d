/** Runs the calls of an object's methods through a function, such as one that measures them. */

/** The name of a call, from its arguments. */
// biome-ignore lint/suspicious/noExplicitAny: what the arguments are is known where the names are given.
type Naming = string | ((...args: any[]) => string);
export type CallNames<T> = { [Key in keyof T as T[Key] extends (...args: never[]) => unknown ? Key : never]?: Naming };

/** Replaces these methods of an object, or of the prototype of a class. */
export function wrapCalls<T extends object>(
  subject: T,
  names: CallNames<T>,
  run: (name: string, work: () => unknown) => unknown,
): void {
  for (const [key, naming] of Object.entries(names) as [keyof T, Naming][]) {
    const method = subject[key] as (...args: unknown[]) => unknown;
    const wrapped = function (this: unknown, ...args: unknown[]) {
      return run(typeof naming === "string" ? naming : naming(...args), () => method.apply(this, args));
    };
    subject[key] = wrapped as T[keyof T];
  }
}
