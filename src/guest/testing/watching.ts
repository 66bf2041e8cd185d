/**
 * Common steps of watching tests: open a stream or a polling watcher on a real daemon, change files, and read all
 * events up to a mark. The mark is a file created afterwards: the kernel reports events in order.
 */
import { closeSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from "node:fs";
import type { RunningGuest, StreamedEvent } from "./running-guest.ts";

interface WatchRequest {
  path: string;
  recursive?: boolean;
  includeEntry?: boolean;
  allowNetworkMounts?: boolean;
}

interface ToldEvent {
  name: string;
  type: string;
  entry?: { name: string; path: string; type?: string; size?: string; permissions?: string };
}

interface WatchMessage {
  start?: object;
  keepalive?: object;
  filesystem?: ToldEvent;
  error?: { code: string; message: string };
}

const MARK = "~mark";

/** Readable form, such as `CREATE a/b`. */
export function shown({ name, type }: ToldEvent): string {
  return `${type.replace("EVENT_TYPE_", "")} ${name}`;
}

/** A watch through the stream. Disposing of it closes the connection. */
export class StreamedWatch implements AsyncDisposable {
  readonly #folder: string;
  readonly #messages: AsyncGenerator<StreamedEvent>;

  private constructor(folder: string, messages: AsyncGenerator<StreamedEvent>) {
    this.#folder = folder;
    this.#messages = messages;
  }

  /** Settles with the start message. */
  static async open(guest: RunningGuest, request: WatchRequest, headers: Record<string, string> = {}) {
    const watch = new StreamedWatch(request.path, guest.stream("filesystem.Filesystem/WatchDir", request, headers));
    const first = await watch.next();
    if (first.start === undefined) throw new Error(`not a start message: ${JSON.stringify(first)}`);
    return watch;
  }

  async next(): Promise<WatchMessage> {
    const step = await this.#messages.next();
    if (step.done === true) throw new Error("the stream is over");
    return step.value.json as WatchMessage;
  }

  /** The next event, after any number of keepalives. */
  async nextEvent(): Promise<ToldEvent | undefined> {
    let message = await this.next();
    while (message.keepalive !== undefined) message = await this.next();
    return message.filesystem;
  }

  /** All events reported so far. */
  async events(): Promise<ToldEvent[]> {
    const events: ToldEvent[] = [];
    mark(this.#folder);
    for (;;) {
      const message = await this.next();
      if (message.error !== undefined) throw new Error(`the stream failed: ${JSON.stringify(message.error)}`);
      if (message.filesystem?.name === MARK) break;
      if (message.filesystem !== undefined) events.push(message.filesystem);
    }
    // Removes the mark, so that a later mark is a new file and events of this one are not taken for it.
    await this.#skipTo("REMOVE");
    return events;
  }

  async shown(): Promise<string[]> {
    return (await this.events()).map(shown);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#messages.return(undefined);
  }

  async #skipTo(type: string): Promise<void> {
    rmSync(`${this.#folder}/${MARK}`);
    for (let message = await this.next(); ; message = await this.next()) {
      if (message.filesystem?.name === MARK && message.filesystem.type === `EVENT_TYPE_${type}`) return;
    }
  }
}

/** All events so far. */
export async function pollEvents(guest: RunningGuest, watcherId: string): Promise<ToldEvent[]> {
  const response = await guest.call("filesystem.Filesystem/GetWatcherEvents", { watcherId });
  if (response.status !== 200) throw new Error(`polling answered ${response.status}: ${await response.text()}`);
  const { events = [] } = (await response.json()) as { events?: ToldEvent[] };
  return events.filter(({ name }) => name !== MARK);
}

export async function createWatcher(guest: RunningGuest, request: WatchRequest): Promise<string> {
  const response = await guest.call("filesystem.Filesystem/CreateWatcher", request);
  const { watcherId, ...rest } = (await response.json()) as { watcherId?: string };
  if (watcherId === undefined) throw new Error(`no watcher: ${JSON.stringify(rest)}`);
  return watcherId;
}

/** Number of watched directories in each inotify instance of the daemon. */
export function kernelWatches(pid: number): number[] {
  return readdirSync(`/proc/${pid}/fdinfo`).flatMap((fd) => {
    const text = readUnlessClosed(`/proc/${pid}/fdinfo/${fd}`);
    const count = text.match(/^inotify wd:/gm)?.length ?? 0;
    return count > 0 ? [count] : [];
  });
}

function readUnlessClosed(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (thrown) {
    if (thrown instanceof Error && "code" in thrown && thrown.code === "ENOENT") return "";
    throw thrown;
  }
}

function mark(folder: string): void {
  put(`${folder}/${MARK}`);
}

/** Creates a file with one write or none: node:fs has no function with a fixed number of writes. */
export function put(path: string, content = ""): void {
  const fd = openSync(path, "wx");
  try {
    if (content !== "") writeSync(fd, content);
  } finally {
    closeSync(fd);
  }
}
