/** The Process service: maps RPC calls to the process table and turns process events into streams. */
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { requestIdIn } from "../../contract/request-id.ts";
import {
  type Process,
  type ProcessInput,
  type ProcessSelector,
  Signal,
  type StartRequest,
  type StreamInputRequest,
} from "../../contract/runtime/wire/process/process_pb.ts";
import type { Journal } from "../journal/journal.ts";
import { keepaliveMs } from "../rpc/keepalive.ts";
import { callShortcut, callUser } from "../rpc/rpc.ts";
import type { Shortcut } from "../rpc/shortcut.ts";
import { discard } from "../system/garbage.ts";
import type { MeminfoFile } from "../system/meminfo-file.ts";
import { refuse } from "../system/rpc-fault.ts";
import { GuestProcess } from "./guest-process.ts";
import type { Launch } from "./launcher.ts";
import { EnvelopeWriter } from "./output-envelopes.ts";
import { noteFailedStart, noteProcess } from "./process-notes.ts";
import { ProcessTable } from "./process-table.ts";
import type { ProcessEventInit, Subscription } from "./subscription.ts";

export function processService(
  launch: Launch,
  journal: Journal,
  meminfoFile: MeminfoFile,
): ServiceImpl<typeof Process> {
  const table = new ProcessTable();

  function start(request: StartRequest, context: HandlerContext): GuestProcess {
    const account = callUser(context);
    const lifetimeMs = context.timeoutMs();
    const requestId = requestIdIn(context.requestHeader);
    meminfoFile.refresh();
    try {
      const started = launch(request, account, lifetimeMs);
      table.add(started);
      noteProcess(journal, started, account, { lifetimeMs, requestId });
      return started;
    } catch (thrown) {
      noteFailedStart(journal, request, account, { thrown, requestId });
      throw thrown;
    }
  }

  async function sendInput(selector: ProcessSelector | undefined, input: ProcessInput | undefined): Promise<void> {
    const target = table.findRunning(selector);
    meminfoFile.refresh();
    const given = input?.input;
    if (given?.case === undefined) throw refuse("unimplemented", "the input is empty; give stdin or pty bytes");
    await target.send(given.case, given.value);
  }

  async function feed(requests: AsyncIterable<StreamInputRequest>): Promise<void> {
    let target: ProcessSelector | undefined;
    for await (const { event } of requests) {
      if (event.case === "start") {
        table.findRunning(event.value.process);
        target = event.value.process;
      } else if (event.case === "data") {
        if (target === undefined) {
          throw refuse("invalid_argument", "the first message must be start, naming the process");
        }
        await sendInput(target, event.value.input);
      }
    }
  }

  return {
    list: () => ({
      processes: table.list().map((running) => ({
        pid: running.pid,
        ...(running.config === undefined ? {} : { config: running.config }),
        ...(running.tag === undefined ? {} : { tag: running.tag }),
      })),
    }),

    async *start(request, context) {
      const started = start(request, context);
      // Subscribes in the same turn of the event loop as the spawn, so that no output is read before the listener
      // exists.
      yield* narrate(started.pid, started.subscribe(), context);
    },

    async *connect(request, context) {
      const found = table.find(request.process);
      if (found instanceof GuestProcess) {
        yield* narrate(found.pid, found.subscribe(), context);
        return;
      }
      yield { event: startEvent(found.pid) };
      yield { event: { event: { case: "end", value: found.end } } };
    },

    update(request) {
      const target = table.findRunning(request.process);
      const size = request.pty?.size;
      if (request.pty !== undefined) target.resize(size?.cols ?? 0, size?.rows ?? 0);
      return {};
    },

    async sendInput(request, context) {
      await untilCallEnds(sendInput(request.process, request.input), context);
      return {};
    },

    async streamInput(requests, context) {
      await untilCallEnds(feed(requests), context);
      return {};
    },

    sendSignal(request) {
      const target = table.findRunning(request.process);
      if (request.signal === Signal.SIGKILL) target.signal("SIGKILL");
      else if (request.signal === Signal.SIGTERM) target.signal("SIGTERM");
      else throw refuse("unimplemented", `signal ${request.signal} cannot be sent; SIGKILL and SIGTERM can`);
      return {};
    },

    async closeStdin(request, context) {
      await untilCallEnds(table.findRunning(request.process).closeStdin(), context);
      return {};
    },
  };
}

/** Streams a process's events, beginning with its pid. Every exit path releases the listener. */
async function* narrate(
  pid: number,
  subscription: Subscription,
  context: HandlerContext,
): AsyncGenerator<{ event: ProcessEventInit }> {
  const quietMs = keepaliveMs(context.requestHeader);
  const hangUp = () => subscription.close();
  context.signal.addEventListener("abort", hangUp);
  if (context.signal.aborted) hangUp();
  try {
    yield { event: startEvent(pid) };
    passOutput(subscription, callShortcut(context));
    let next = await subscription.ended(quietMs);
    for (; next === "idle"; next = await subscription.ended(quietMs)) {
      yield { event: { event: { case: "keepalive", value: {} } } };
    }
    if (next !== "closed") yield { event: next };
    context.signal.throwIfAborted();
  } finally {
    context.signal.removeEventListener("abort", hangUp);
    subscription.close();
  }
}

/** Writes output to the client's stream, past the library, whenever the stream has room for it. */
function passOutput(subscription: Subscription, shortcut: Shortcut): void {
  const writer = new EnvelopeWriter();
  let isTold = false;
  subscription.onOutput = () => {
    if (isTold) return;
    isTold = true;
    // Deferred, so that other output that is ready goes out in the same write.
    setImmediate(() => {
      isTold = false;
      shortcut.ready();
    });
  };
  shortcut.open(() => {
    const pieces = subscription.takeOutput();
    if (pieces.length === 0) return undefined;
    const envelopes = writer.write(pieces, shortcut.codec);
    for (const { whole } of pieces) if (whole !== undefined) discard(whole);
    return envelopes;
  });
}

function startEvent(pid: number): ProcessEventInit {
  return { event: { case: "start", value: { pid } } };
}

/** Settles when the work is done or the call ends, whichever comes first. The work itself continues. */
async function untilCallEnds(work: Promise<void>, context: HandlerContext): Promise<void> {
  const over = Promise.withResolvers<never>();
  const stop = () => over.reject(context.signal.reason);
  context.signal.addEventListener("abort", stop);
  if (context.signal.aborted) stop();
  try {
    await Promise.race([work, over.promise]);
  } finally {
    context.signal.removeEventListener("abort", stop);
  }
}
