/** Common steps of process tests: start a process, follow it to its end, send input, kill it. */
import type { Speaker } from "./encodings.ts";
import type { StreamedEvent } from "./running-guest.ts";

/** Everything that a stream reported, joined. */
interface Outcome {
  pid: number;
  stdout: string;
  stderr: string;
  pty: string;
  end: NonNullable<StreamedEvent["json"]["event"]>["end"];
  error: StreamedEvent["json"]["error"];
}

export class ProcessCalls {
  readonly #guest: Speaker;

  constructor(guest: Speaker) {
    this.#guest = guest;
  }

  run(message: unknown, headers: Record<string, string> = {}): Promise<Outcome> {
    return follow(this.#guest.stream("process.Process/Start", message, headers));
  }

  /** Starts a process; `rest` holds the events after its pid. */
  async start(message: unknown, headers: Record<string, string> = {}) {
    const rest = this.#guest.stream("process.Process/Start", message, headers);
    return { pid: await nextPid(rest), rest };
  }

  connect(
    selector: { pid: number } | { tag: string },
    headers: Record<string, string> = {},
  ): AsyncGenerator<StreamedEvent> {
    return this.#guest.stream("process.Process/Connect", { process: selector }, headers);
  }

  input(pid: number, stdin: string): Promise<Response> {
    return this.#guest.call("process.Process/SendInput", { process: { pid }, input: { stdin: btoa(stdin) } });
  }

  type(pid: number, keys: string): Promise<Response> {
    return this.#guest.call("process.Process/SendInput", { process: { pid }, input: { pty: btoa(keys) } });
  }

  closeStdin(pid: number): Promise<Response> {
    return this.#guest.call("process.Process/CloseStdin", { process: { pid } });
  }

  kill(pid: number, signal = "SIGNAL_SIGKILL"): Promise<Response> {
    return this.#guest.call("process.Process/SendSignal", { process: { pid }, signal });
  }
}

export const shell = (script: string) => ({ process: { cmd: "/bin/sh", args: ["-c", script] } });

const decode = (base64: string | undefined) => Buffer.from(base64 ?? "", "base64").toString();

export async function follow(events: AsyncIterable<StreamedEvent>): Promise<Outcome> {
  const outcome: Outcome = { pid: 0, stdout: "", stderr: "", pty: "", end: undefined, error: undefined };
  for await (const { json } of events) {
    outcome.pid = json.event?.start?.pid ?? outcome.pid;
    outcome.end = json.event?.end ?? outcome.end;
    outcome.error = json.error ?? outcome.error;
    for (const kind of ["stdout", "stderr", "pty"] as const) outcome[kind] += decode(json.event?.data?.[kind]);
  }
  return outcome;
}

async function next(events: AsyncGenerator<StreamedEvent>): Promise<StreamedEvent["json"]> {
  const step = await events.next();
  if (step.done === true) throw new Error("the stream is over");
  return step.value.json;
}

export async function nextPid(events: AsyncGenerator<StreamedEvent>): Promise<number> {
  const json = await next(events);
  if (json.event?.start === undefined) throw new Error(`not a start event: ${JSON.stringify(json)}`);
  return json.event.start.pid;
}

/** The text of the next event, which must be output of the given kind. */
export async function nextText(
  events: AsyncGenerator<StreamedEvent>,
  kind: "stdout" | "stderr" | "pty",
): Promise<string> {
  const json = await next(events);
  const output = json.event?.data?.[kind];
  if (output === undefined) throw new Error(`not ${kind}: ${JSON.stringify(json)}`);
  return decode(output);
}

export async function refusal(response: Promise<Response>): Promise<[status: number, code: string]> {
  const given = await response;
  return [given.status, ((await given.json()) as { code: string }).code];
}
