/** The client's request that the running code works for: the log and traces name it, without passing it along. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { RequestOrigin } from "../contract/request-id.ts";

interface Running {
  origin: RequestOrigin;
  isOver: boolean;
}

const around = new AsyncLocalStorage<Running>();

/**
 * Runs the work for this request; undefined: for none. What the work leaves behind, such as a timer, belongs to no
 * request once the work has ended.
 */
export function inRequest<T>(origin: RequestOrigin | undefined, work: () => Promise<T>): Promise<T> {
  if (origin === undefined) return work();
  const running: Running = { origin, isOver: false };
  const result = around.run(running, work);
  const end = () => {
    running.isOver = true;
  };
  result.then(end, end);
  return result;
}

export function currentRequest(): RequestOrigin | undefined {
  const running = around.getStore();
  return running === undefined || running.isOver ? undefined : running.origin;
}
