/**
 * A host behind a wire: arguments, results, errors and events pass only as JSON text, as they would between two
 * machines. Values that JSON would change are an error, so that no caller relies on a closure or a map. Control's own
 * tests run on it, and so do the host's contract tests.
 */
import { described } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";
import type { Host, HostEvent } from "../../contract/internal/host.ts";

export function serialised(host: Host): Host {
  const events: Host["events"] = (listener) => host.events((event) => listener(carried<HostEvent>("an event", event)));
  return new Proxy(host, {
    get(_, name: Exclude<keyof Host, "events">) {
      if ((name as string) === "events") return events;
      const act: unknown = host[name];
      if (typeof act !== "function") return act;
      return (...args: unknown[]) => call(name, act.bind(host), args);
    },
  });
}

/** The host with some of its calls replaced. */
export function hostWith(host: Host, acts: Partial<Host>): Host {
  return new Proxy(host, {
    get(_, name: keyof Host) {
      const act: unknown = acts[name] ?? host[name];
      return typeof act === "function" ? act.bind(host) : act;
    },
  });
}

/** The call reaches the host at once; only its result takes a moment. */
async function call<A extends unknown[], R>(name: string, act: (...args: A) => Promise<R>, args: A): Promise<R> {
  const sent = carried(`what ${name} is given`, args);
  let result: R;
  try {
    result = await act(...sent);
  } catch (thrown) {
    throw carriedFault(thrown);
  }
  return carried(`what ${name} answers`, result);
}

/** The value after a JSON round trip; undefined stays undefined. */
function carried<T>(what: string, value: T): T {
  if (value === undefined) return value;
  if (!isPlain(value)) throw new Error(`${what} is not what JSON carries: ${Bun.inspect(value)}`);
  return JSON.parse(JSON.stringify(value));
}

/** An undefined member may be missing after the round trip; any other value must be unchanged. */
function isPlain(value: unknown): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object") return false;
  if (Array.isArray(value)) return value.every(isPlain);
  const members = Object.values(value).filter((member) => member !== undefined);
  return Object.getPrototypeOf(value) === Object.prototype && members.every(isPlain);
}

/** The cause becomes text, which is enough for a log. */
function carriedFault(thrown: unknown): Fault {
  const { status, message, errorCode, headers, cause } = Fault.from(thrown);
  const options = {
    headers,
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(cause === undefined ? {} : { cause: described(cause) }),
  };
  const sent = carried("a fault", { status, message, options });
  return new Fault(sent.status, sent.message, sent.options);
}
