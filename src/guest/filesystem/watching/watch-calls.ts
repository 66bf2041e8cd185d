/**
 * The four calls of the wire that watch directories: one stream, and three for clients that ask now and then.
 */
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

/** `resolve` gives the absolute path of a call; some clients do not know entries and get events without. */
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
      // A client that goes while it owes us a read never resumes this generator, so its leaving alone must release the
      // watch.
      const hangUp = () => void watchers.close(watch);
      context.signal.addEventListener("abort", hangUp);
      try {
        if (context.signal.aborted) hangUp();
        yield { event: { case: "start", value: {} } };
        const quietMs = keepaliveMs(context.requestHeader);
        for (;;) {
          // Sending could go on without a pause as long as the client reads; what the kernel has to tell must not wait
          // for that.
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
      // The kernel queues an event before the system call that caused it returns; the daemon reads the queue later.
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

/** Whoever asks now and then must not take a failed watcher for a passing shortage: every failure is internal. */
function takeAll(watchers: Watchers, id: string): FilesystemEventInit[] {
  const { events } = watchers.polled(id);
  try {
    return events.takeAll();
  } catch (thrown) {
    throw refuse("internal", `the watcher ${id} has failed: ${Fault.from(thrown).message}`, thrown);
  }
}
