/** The four RPC calls for watching directories: one stream, and three calls for polling clients. */
import { setImmediate } from "node:timers/promises";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../../contract/fault.ts";
import type { Filesystem } from "../../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { keepaliveMs } from "../../rpc/keepalive.ts";
import { refuse } from "../../system/rpc-fault.ts";
import type { FilesystemEventInit } from "./event-buffer.ts";
import type { WatchOptions } from "./watch.ts";
import type { Watchers } from "./watchers.ts";

type WatchCalls = Required<
  Pick<ServiceImpl<typeof Filesystem>, "watchDir" | "createWatcher" | "getWatcherEvents" | "removeWatcher">
>;

/** `resolve` returns the absolute path of a call. Clients without support for entries get events without them. */
export function watchCalls(
  watchers: Watchers,
  resolve: (path: string, context: HandlerContext) => string,
  knowsEntries: (context: HandlerContext) => boolean,
): WatchCalls {
  const optionsOf = (request: WatchOptions, context: HandlerContext): WatchOptions => ({
    recursive: request.recursive,
    includeEntry: knowsEntries(context) && request.includeEntry,
    allowNetworkMounts: request.allowNetworkMounts,
  });

  return {
    async *watchDir(request, context) {
      const path = resolve(request.path, context);
      const watch = await watchers.open(path, optionsOf(request, context), context.signal);
      // A client that disconnects while a write is pending never resumes this generator, so the abort event must
      // release the watch.
      const hangUp = () => void watchers.close(watch);
      context.signal.addEventListener("abort", hangUp);
      try {
        if (context.signal.aborted) hangUp();
        yield { event: { case: "start", value: {} } };
        const quietMs = keepaliveMs(context.requestHeader);
        for (;;) {
          // Yields to the event loop: sending could otherwise continue without a pause and delay reading kernel events.
          await setImmediate();
          const next = await watch.events.take(quietMs);
          if (next === "closed") break;
          if (next === "idle") yield { event: { case: "keepalive", value: {} } };
          else for (const value of next) yield { event: { case: "filesystem", value } };
        }
        context.signal.throwIfAborted();
      } finally {
        context.signal.removeEventListener("abort", hangUp);
        await watchers.close(watch);
      }
    },

    async createWatcher(request, context) {
      const path = resolve(request.path, context);
      return { watcherId: await watchers.openPolled(path, optionsOf(request, context), context.signal) };
    },

    async getWatcherEvents(request, context) {
      // The kernel queues an event before the causing system call returns; the daemon reads the queue later.
      await watchers.polled(request.watcherId).catchUp();
      const events = takeAll(watchers, request.watcherId);
      return { events: knowsEntries(context) ? events : events.map(({ name, type }) => ({ name, type })) };
    },

    async removeWatcher(request) {
      await watchers.removePolled(request.watcherId);
      return {};
    },
  };
}

/** Every failure is internal, so that a client does not mistake a failed watcher for a temporary shortage. */
function takeAll(watchers: Watchers, id: string): FilesystemEventInit[] {
  const { events } = watchers.polled(id);
  try {
    return events.takeAll();
  } catch (thrown) {
    throw refuse("internal", `the watcher ${id} has failed: ${Fault.from(thrown).message}`, thrown);
  }
}
