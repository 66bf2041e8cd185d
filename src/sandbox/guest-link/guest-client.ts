/**
 * The host's end of the control channel: waits for a guest, configures it, asks it to open a way to a loopback service.
 */
import { appendFileSync, existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import {
  CONTROL_PREFIX,
  CONTROL_SECRET_HEADER,
  type ForwardAnswer,
  type ForwardRequest,
  type GuestSettings,
} from "../../contract/runtime/guest-control.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { DoorProbe } from "../../system/net/port-probe.ts";
import { overloaded } from "../../system/overload.ts";
import {
  GUEST_ALIVE_EVERY_MS,
  GUEST_ANSWER_MAX_BYTES,
  GUEST_CALL_MS,
  GUEST_LOOK_FIRST_MS,
  GUEST_LOOK_MAX_MS,
  GUEST_LOOK_MIN_MS,
  GUEST_PING_MAX_MS,
  GUEST_PING_MIN_MS,
} from "../limits.ts";
import { envelope } from "./connect-stream.ts";
import { askGuest, type GuestAnswer } from "./guest-question.ts";
import type { GuestSign } from "./guest-sign.ts";
import type { UsualTime } from "./usual-time.ts";

export const GUEST_READY_MS = scaled(30_000);

/** What is known of a guest that is waited for. */
interface Expectation {
  /** Sees what else it answers, and throws if that is its last word. */
  judge?: (status: number) => void;
  /** Most likely it answers at once. */
  isLikely?: boolean;
  started?: Started | undefined;
}

/** It has just been started: it says when it listens, or is looked for when they usually are there. */
export interface Started {
  sign: GuestSign | undefined;
  usual: UsualTime;
}

/** Of a guest in a sandbox. */
interface GuestFiles {
  /** Of the host alone, for its settings: they can be told again, also by a server that was started since. */
  settings: string;
  /** The guest sees it: where it reads the secret, and looks for its settings while it is nobody's. */
  shown: string;
}

export class GuestClient {
  /** It has the settings that it was given, as far as this server has seen. */
  #isSettled = false;

  constructor(
    readonly address: string,
    readonly secret: string,
    readonly files?: GuestFiles,
  ) {}

  /**
   * Answers when the guest does. `alive` tells whether it is worth waiting on. One that has just been started is not
   * there at once.
   */
  async ready(alive: () => boolean, started?: Started): Promise<void> {
    await this.#answering(alive, (withinMs) => this.#call("GET", "ping", undefined, withinMs), { started });
  }

  /**
   * Another guest process in the place of the one that runs: nothing of what that was told, tokens and variables among
   * it, is in the sandbox's memory afterwards. Other processes go on, those in terminals excepted; what they write is
   * lost, and the new guest does not list them. It answers nobody until it is configured. For a checkpoint that others
   * get: whatever is asked of the guest before that is in its memory again.
   */
  async renew(alive: () => boolean): Promise<void> {
    await this.#anew("renew", alive);
  }

  /** A new guest in the place of this one, with the same settings. What this one has started goes on. */
  async replace(alive: () => boolean): Promise<void> {
    await this.#anew("replace", alive);
  }

  async #anew(how: "renew" | "replace", alive: () => boolean): Promise<void> {
    const response = await this.#stream("POST", how, GUEST_CALL_MS).catch((cause: unknown) => {
      throw new Fault(500, "the guest could not be told to renew itself", { cause });
    });
    if (response.status !== 200) {
      throw new Fault(500, `the guest refused to renew itself, with status ${response.status}`);
    }
    // The answer breaks off when the one that gave it is gone.
    const cause: unknown = await boundedText(response).catch((error: unknown) => error);
    if (isTimeout(cause)) throw overloaded(`the guest did not renew itself within ${GUEST_CALL_MS} ms`, cause);
    const health = { address: this.address, port: RUNTIME_PORT, method: "GET", path: "/health" };
    await this.#answering(alive, (withinMs) => askGuest(health, withinMs));
  }

  /**
   * A request that nobody takes costs both sides many times what it takes to see whether somebody would; so it is made
   * once there is; or at once, if most likely somebody will. Where many start at once, each takes longer, and looks the
   * less often the longer it has taken. Nobody looks much for one that says when it is there.
   */
  async #answering(
    alive: () => boolean,
    ask: (withinMs: number) => Promise<GuestAnswer>,
    { judge, isLikely = false, started }: Expectation = {},
  ): Promise<void> {
    const began = performance.now();
    let sign = started?.sign?.isWatched ? started.sign : undefined;
    let isExpected = isLikely;
    if (sign !== undefined) isExpected = await sign.within(GUEST_ALIVE_EVERY_MS);
    else if (started !== undefined) await Bun.sleep(started.usual.firstLookMs);
    let asked = 0;
    let seenAliveMs = 0;
    using door = new DoorProbe(this.address, RUNTIME_PORT);
    for (let elapsedMs = started ? performance.now() - began : 0; ; elapsedMs = performance.now() - began) {
      let answer: GuestAnswer | undefined;
      let failure: unknown;
      const isOpen = (isExpected && asked === 0) || door.isOpen();
      if (isOpen) {
        sign = undefined;
        // Of the first packets one may be lost, which is sent again after a second.
        answer = await ask(Math.min(GUEST_PING_MIN_MS * 2 ** asked++, GUEST_PING_MAX_MS)).catch((error: unknown) => {
          failure = error;
          return undefined;
        });
        if (answer?.status === 204) return started?.usual.note(elapsedMs);
        if (answer !== undefined) judge?.(answer.status);
      }
      // To look at a process takes longer than to look at a door.
      if (elapsedMs === 0 || isOpen || elapsedMs - seenAliveMs >= GUEST_ALIVE_EVERY_MS) {
        if (!alive()) throw new Fault(500, "the sandbox ended while it was starting", { cause: failure });
        seenAliveMs = elapsedMs;
      }
      if (elapsedMs > GUEST_READY_MS) throw overloaded(`the guest did not answer within ${GUEST_READY_MS} ms`, failure);
      if (sign === undefined) await Bun.sleep(pauseAfter(elapsedMs));
      else isExpected = await sign.within(GUEST_ALIVE_EVERY_MS);
    }
  }

  /**
   * Starts a process as any client would, while the guest still asks for no token. The answer is its stream of events.
   */
  async start([cmd, ...args]: string[], user: string): Promise<Response> {
    return await fetch(`http://${this.address}:${RUNTIME_PORT}/process.Process/Start`, {
      method: "POST",
      headers: { "content-type": "application/connect+json", authorization: `Basic ${btoa(`${user}:`)}` },
      body: envelope({ process: { cmd, args, cwd: "/" }, stdin: false }),
      redirect: "manual",
      decompress: false,
      keepalive: false,
      signal: AbortSignal.timeout(GUEST_CALL_MS),
    });
  }

  async configure(settings: GuestSettings): Promise<void> {
    this.#keep(settings);
    await this.#tell(settings);
    this.heard();
  }

  /**
   * The same for a guest of this version that was booted and is nobody's, without waiting for it: it takes them before
   * it answers the next request. Nobody may ask it anything meanwhile.
   */
  show(settings: GuestSettings): void {
    if (this.files === undefined) throw new Error("a guest without files cannot be shown anything");
    this.#keep(settings);
    appendFileSync(this.files.shown, `\n${JSON.stringify(settings)}`);
  }

  /** The guest has done what it was asked: it has its settings and keeps them. It is shown the secret alone. */
  heard(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    if (this.files !== undefined && existsSync(this.files.shown)) truncateSync(this.files.shown, this.secret.length);
  }

  /**
   * For a checkpoint, since a copy knows by its settings that it is one, and finds every file as long as it was. Never
   * throws: one that does not answer is written as it is.
   */
  async settle(): Promise<void> {
    if (this.#isSettled) return;
    const answer = await this.#call("GET", "ping", undefined, GUEST_PING_MAX_MS).catch(() => undefined);
    if (answer?.status === 204) this.heard();
  }

  /** Both at once, `ready` and `configure`. One that has not just been started was restored: it answers at once. */
  async readyWith(settings: GuestSettings, alive: () => boolean, started?: Started): Promise<void> {
    this.#keep(settings);
    const ask = (withinMs: number) => this.#call("POST", "configure", settings, withinMs);
    const judge = (status: number) => {
      // It is the guest that says so; what else may answer for it at first is asked again.
      if (status >= 400 && status < 500) throw refused(status);
    };
    await this.#answering(alive, ask, { judge, started, isLikely: started === undefined });
    this.heard();
  }

  #keep(settings: GuestSettings): void {
    if (this.files !== undefined) writeFileSync(this.files.settings, JSON.stringify(settings), { mode: 0o600 });
  }

  /** For a guest that has lost its settings; one that was never given any is left as it is. */
  async reconfigure(): Promise<void> {
    if (this.files === undefined || !existsSync(this.files.settings)) return;
    await this.#tell(JSON.parse(readFileSync(this.files.settings, "utf8")));
  }

  async #tell(settings: GuestSettings): Promise<void> {
    const response = await this.#call("POST", "configure", settings, GUEST_CALL_MS).catch((cause: unknown) => {
      if (isTimeout(cause)) throw overloaded(`the guest did not take its settings within ${GUEST_CALL_MS} ms`, cause);
      throw new Fault(500, "the guest could not be told its settings", { cause });
    });
    if (response.status !== 204) throw refused(response.status);
  }

  async forward(port: number): Promise<number | undefined> {
    const request: ForwardRequest = { port };
    const response = await this.#call("POST", "forward", request, GUEST_CALL_MS);
    if (response.status !== 200) return undefined;
    return forwardedPort(response.text);
  }

  async #call(method: string, action: string, body: unknown, timeoutMs: number): Promise<GuestAnswer> {
    const headers = { [CONTROL_SECRET_HEADER]: this.secret };
    const asked = { address: this.address, port: RUNTIME_PORT, method, path: CONTROL_PREFIX + action, headers };
    return await askGuest(body === undefined ? asked : { ...asked, body: JSON.stringify(body) }, timeoutMs);
  }

  /** For an answer that goes on. */
  async #stream(method: string, action: string, timeoutMs: number): Promise<Response> {
    return await fetch(`http://${this.address}:${RUNTIME_PORT}${CONTROL_PREFIX}${action}`, {
      method,
      headers: { [CONTROL_SECRET_HEADER]: this.secret },
      redirect: "manual",
      decompress: false,
      // Addresses are used again by other sandboxes: a kept connection could reach the wrong one.
      keepalive: false,
      signal: AbortSignal.timeout(timeoutMs),
    });
  }
}

function refused(status: number): Fault {
  return new Fault(500, `the guest refused its settings with status ${status}`);
}

/** A sixth of what it has taken so far is the most that is lost by not having looked. None is there at once. */
export function pauseAfter(elapsedMs: number): number {
  if (elapsedMs === 0) return GUEST_LOOK_FIRST_MS;
  return Math.min(Math.max(elapsedMs / 6, GUEST_LOOK_MIN_MS), GUEST_LOOK_MAX_MS);
}

/** Undefined when that is no answer of a guest. */
export function forwardedPort(text: string): number | undefined {
  try {
    const { port } = (JSON.parse(text) ?? {}) as Partial<ForwardAnswer>;
    return Number.isInteger(port) && Number(port) > 0 && Number(port) < 65_536 ? port : undefined;
  } catch {
    return undefined;
  }
}

/** Of a wait that ran out; any other failure of a call comes at once, such as a connection that nobody takes. */
export function isTimeout(cause: unknown): boolean {
  return cause instanceof Error && cause.name === "TimeoutError";
}

/** Root in the sandbox may have put anything in the guest's place: no more is taken from it than a guest would say. */
export async function boundedText(response: Response, maxBytes = GUEST_ANSWER_MAX_BYTES): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    // Leaving the loop cancels the rest.
    if (text.length > maxBytes) throw new Fault(500, `the guest said more than ${maxBytes} bytes`);
  }
  return text;
}
