/**
 * A host behind a wire: arguments, results, errors and events pass only as JSON text, as they would between two
 * machines. Values that JSON would change are an error, so that no caller relies on a closure or a map. Control's own
 * tests run on it, and so do the host's contract tests.
 */

import { described } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";
import type { Host, HostEvent } from "../../contract/internal/host.ts";

export function serialised(host: Host): Host {
  return {
    events: (listener) => host.events((event) => listener(carried<HostEvent>("an event", event))),
    create: (...args) => call("create", host.create.bind(host), args),
    pause: (...args) => call("pause", host.pause.bind(host), args),
    resume: (...args) => call("resume", host.resume.bind(host), args),
    snapshot: (...args) => call("snapshot", host.snapshot.bind(host), args),
    removeCheckpoint: (...args) => call("removeCheckpoint", host.removeCheckpoint.bind(host), args),
    destroy: (...args) => call("destroy", host.destroy.bind(host), args),
    setEgress: (...args) => call("setEgress", host.setEgress.bind(host), args),
    lookUp: (...args) => call("lookUp", host.lookUp.bind(host), args),
    forward: (...args) => call("forward", host.forward.bind(host), args),
    adopt: (...args) => call("adopt", host.adopt.bind(host), args),
    hearLog: (...args) => call("hearLog", host.hearLog.bind(host), args),
    putOffLog: (...args) => call("putOffLog", host.putOffLog.bind(host), args),
    measure: (...args) => call("measure", host.measure.bind(host), args),
    processorTimes: (...args) => call("processorTimes", host.processorTimes.bind(host), args),
    build: (...args) => call("build", host.build.bind(host), args),
    cancelBuild: (...args) => call("cancelBuild", host.cancelBuild.bind(host), args),
    prepareStart: (...args) => call("prepareStart", host.prepareStart.bind(host), args),
    collectImages: (...args) => call("collectImages", host.collectImages.bind(host), args),
    createVolume: (...args) => call("createVolume", host.createVolume.bind(host), args),
    removeVolume: (...args) => call("removeVolume", host.removeVolume.bind(host), args),
    keepReady: (...args) => call("keepReady", host.keepReady.bind(host), args),
    close: (...args) => call("close", host.close.bind(host), args),
  };
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
