/**
 * The host's end of the control channel: waits for a guest, configures it, and asks it to forward a port to a loopback
 * service.
 *
 * This folder talks to the guests of sandboxes. It never trusts a response: root in a sandbox can replace the guest.
 */
import { appendFileSync, existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { type Log, stderrLog } from "../../base/log.ts";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import {
  AUTHORITY_READ_HEADER,
  CONTROL_PREFIX,
  CONTROL_SECRET_HEADER,
  type ForwardAnswer,
  type ForwardRequest,
  type GuestSettings,
  UNASSIGNED_SETTINGS,
} from "../../contract/runtime/guest-control.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { overloaded } from "../../system/overload.ts";
import { GUEST_CALL_MS } from "../limits.ts";
import { envelope } from "./connect-stream.ts";
import { boundedText, fetchGuest, isTimeout, jsonObject } from "./guest-request.ts";
import type { ListenSignal } from "./listen-signal.ts";

export const GUEST_READY_MS = scaled(30_000);
/** How often a starting guest whose signal is awaited is asked. */
export const GUEST_ALIVE_EVERY_MS = 200;
/** Intervals of polling a starting guest, and timeouts of each ping: both grow from the first to the second. */
const [GUEST_POLL_MIN_MS, GUEST_POLL_MAX_MS] = [5, 100];
const [GUEST_PING_MIN_MS, GUEST_PING_MAX_MS] = [scaled(250), scaled(2_000)];

interface GuestAnswer {
  status: number;
  text: string;
  /** Whether the guest reads `trustedAuthority` of its settings. */
  readsAuthority: boolean;
}

interface GuestFiles {
  /** Read by the host only: the settings, so that this or a later server can send them again. */
  settings: string;
  /** Seen by the guest: it reads the secret there, and its settings while it waits in the ready pool. */
  shown: string;
}

/**
 * Commands that a ready sandbox runs ahead. The first output then comes about 17 ms earlier; without that, the
 * benchmark row `first-output` misses its bound of 5 ×.
 */
const WARM_UP_COMMANDS = 3;

export class GuestClient {
  /** The guest has its settings, as far as this server has seen. */
  #isSettled = false;
  #isReportedOld = false;

  constructor(
    readonly address: string,
    readonly secret: string,
    readonly files?: GuestFiles,
    private readonly log: Log = stderrLog,
  ) {}

  /** `alive` tells whether waiting makes sense. A guest that was just started may signal when it listens. */
  async ready(alive: () => boolean, sign?: ListenSignal): Promise<void> {
    await this.#untilAnswer(alive, (withinMs) => this.#call("GET", "ping", undefined, withinMs), sign);
  }

  /**
   * Replaces the guest by a new process, so that none of the old one's tokens and variables remain in the sandbox's
   * memory. Other processes continue, except those in terminals; their output is lost, and the new guest does not list
   * them. It serves no client until it is configured. To be called before a checkpoint for copies, with no request to
   * the guest in between, because requests stay in its memory.
   */
  async renew(alive: () => boolean): Promise<void> {
    await this.#restart("renew", alive);
  }

  /** Replaces the guest by a new process with the same settings. Processes that the old one started continue. */
  async replace(alive: () => boolean): Promise<void> {
    await this.#restart("replace", alive);
  }

  async #restart(how: "renew" | "replace", alive: () => boolean): Promise<void> {
    const response = await this.#control("POST", how, GUEST_CALL_MS).catch((cause: unknown) => {
      throw new Fault(500, "the guest did not receive the request to renew itself", { cause });
    });
    if (response.status !== 200) {
      throw new Fault(500, `the guest refused to renew itself, with status ${response.status}`);
    }
    // The response breaks off when the old process ends.
    const cause: unknown = await boundedText(response).catch((error: unknown) => error);
    if (isTimeout(cause)) throw overloaded(`the guest did not renew itself within ${GUEST_CALL_MS} ms`, cause);
    // Without the secret, which must not be in the new guest's memory.
    await this.#untilAnswer(alive, (withinMs) => answerOf(this.#fetch("/health", withinMs)));
  }

  /**
   * Asks until the guest responds with 204. A guest that signals when it listens is hardly asked before. When many
   * guests start at once, each takes longer and is asked less often the longer it takes. `judge` throws if another
   * status is final.
   */
  async #untilAnswer(
    alive: () => boolean,
    ask: (withinMs: number) => Promise<GuestAnswer>,
    sign?: ListenSignal,
    judge?: (status: number) => void,
  ): Promise<GuestAnswer> {
    const began = performance.now();
    let withinMs = GUEST_PING_MIN_MS;
    let isAwaited = sign?.isWatched ?? false;
    for (;;) {
      if (isAwaited) isAwaited = !(await sign?.within(GUEST_ALIVE_EVERY_MS));
      let failure: unknown;
      const answer = await ask(withinMs).catch((error: unknown) => {
        failure = error;
        return undefined;
      });
      if (answer?.status === 204) return answer;
      if (answer !== undefined) judge?.(answer.status);
      // One of the first packets may be lost, and is sent again after a second.
      if (isTimeout(failure)) withinMs = Math.min(withinMs * 2, GUEST_PING_MAX_MS);
      if (!alive()) throw new Fault(500, "the sandbox ended while it was starting", { cause: failure });
      const elapsedMs = performance.now() - began;
      if (elapsedMs > GUEST_READY_MS) throw overloaded(`the guest did not answer within ${GUEST_READY_MS} ms`, failure);
      if (!isAwaited) await Bun.sleep(pauseAfter(elapsedMs));
    }
  }

  /**
   * Runs a few commands before the sandbox has an owner: a guest loads and compiles its services for the first ones.
   * Their garbage is collected at once, not during the owner's first commands.
   */
  async warmUp(user: string): Promise<void> {
    await this.#sendSettings(UNASSIGNED_SETTINGS);
    for (let ran = 0; ran < WARM_UP_COMMANDS; ran++) {
      await boundedText(await this.start(["/bin/bash", "-l", "-c", "echo"], user));
    }
    await this.#call("POST", "collect", undefined, GUEST_CALL_MS);
  }

  /** As any client would, while the guest still asks for no token. The answer is its stream of events. */
  async start([cmd, ...args]: string[], user: string): Promise<Response> {
    return await this.#fetch("/process.Process/Start", GUEST_CALL_MS, {
      method: "POST",
      headers: { "content-type": "application/connect+json", authorization: `Basic ${btoa(`${user}:`)}` },
      body: envelope({ process: { cmd, args, cwd: "/" }, stdin: false }),
    });
  }

  async configure(settings: GuestSettings): Promise<void> {
    this.#keep(settings);
    await this.#sendSettings(settings);
    this.settingsApplied();
  }

  /** Configures the guest again if its programs are to trust another authority, or none. */
  async trust(authority: string | undefined): Promise<void> {
    const { trustedAuthority: current, ...settings } = this.#kept() ?? UNASSIGNED_SETTINGS;
    if (current === authority || settings.sandboxId === "") return;
    await this.configure(authority === undefined ? settings : { ...settings, trustedAuthority: authority });
  }

  /**
   * Configures a booted guest of the ready pool without waiting for it: the guest reads the settings before it serves
   * the next request. No request may be in progress.
   */
  show(settings: GuestSettings): void {
    if (this.files === undefined) throw new Error("a guest without files cannot be shown anything");
    this.#keep(settings);
    appendFileSync(this.files.shown, `\n${JSON.stringify(settings)}`);
  }

  /** To be called when the guest has responded: it has its settings, so the file it sees is cut back to the secret. */
  settingsApplied(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    if (this.files !== undefined && existsSync(this.files.shown)) truncateSync(this.files.shown, this.secret.length);
  }

  /**
   * To be called before a checkpoint: a copy recognises itself by its settings, and restored files must have their old
   * length. Never throws; a guest that does not respond is checkpointed as it is.
   */
  async settle(): Promise<void> {
    if (this.#isSettled) return;
    const answer = await this.#call("GET", "ping", undefined, GUEST_PING_MAX_MS).catch(() => undefined);
    if (answer?.status === 204) this.settingsApplied();
  }

  /** `ready` and `configure` in one. */
  async readyWith(settings: GuestSettings, alive: () => boolean, sign?: ListenSignal): Promise<void> {
    this.#keep(settings);
    const ask = (withinMs: number) => this.#call("POST", "configure", settings, withinMs);
    const judge = (status: number) => {
      // Only the guest sends these; any other early response is retried.
      if (status >= 400 && status < 500) throw refused(status);
    };
    this.#reportOldGuest(settings, await this.#untilAnswer(alive, ask, sign, judge));
    this.settingsApplied();
  }

  #keep(settings: GuestSettings): void {
    if (this.files !== undefined) writeFileSync(this.files.settings, JSON.stringify(settings), { mode: 0o600 });
  }

  #kept(): GuestSettings | undefined {
    if (this.files === undefined || !existsSync(this.files.settings)) return undefined;
    return JSON.parse(readFileSync(this.files.settings, "utf8"));
  }

  /** Sends the settings again to a guest that has lost them; no-op if it never had any. */
  async reconfigure(): Promise<void> {
    const settings = this.#kept();
    if (settings !== undefined) await this.#sendSettings(settings);
  }

  async #sendSettings(settings: GuestSettings): Promise<void> {
    const response = await this.#call("POST", "configure", settings, GUEST_CALL_MS).catch((cause: unknown) => {
      if (isTimeout(cause)) throw overloaded(`the guest did not take its settings within ${GUEST_CALL_MS} ms`, cause);
      throw new Fault(500, "the guest did not receive its settings", { cause });
    });
    if (response.status !== 204) throw refused(response.status);
    this.#reportOldGuest(settings, response);
  }

  /** Logs once that programs of the sandbox will reject connections to names with header rules. */
  #reportOldGuest({ sandboxId, trustedAuthority }: GuestSettings, { readsAuthority }: GuestAnswer): void {
    if (trustedAuthority === undefined || readsAuthority || this.#isReportedOld) return;
    this.#isReportedOld = true;
    this.log.write({
      level: "warn",
      event: "a sandbox has an older guest, which ignores the certificate of header rules",
      sandbox: sandboxId,
      remedy: "create a new sandbox, or resume this one with memory: false; a resume with memory keeps the guest",
    });
  }

  async forward(port: number): Promise<number | undefined> {
    const request: ForwardRequest = { port };
    const response = await this.#call("POST", "forward", request, GUEST_CALL_MS);
    if (response.status !== 200) return undefined;
    return forwardedPort(response.text);
  }

  async #call(method: string, action: string, body: unknown, timeoutMs: number): Promise<GuestAnswer> {
    return await answerOf(this.#control(method, action, timeoutMs, body));
  }

  #control(method: string, action: string, timeoutMs: number, body?: unknown): Promise<Response> {
    return this.#fetch(CONTROL_PREFIX + action, timeoutMs, {
      method,
      headers: { [CONTROL_SECRET_HEADER]: this.secret, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  #fetch(path: string, timeoutMs: number, request: Omit<BunFetchRequestInit, "signal"> = {}): Promise<Response> {
    const signal = AbortSignal.timeout(timeoutMs);
    return fetchGuest({ address: this.address, port: RUNTIME_PORT }, path, { ...request, signal });
  }
}

async function answerOf(responding: Promise<Response>): Promise<GuestAnswer> {
  const response = await responding;
  const readsAuthority = response.headers.has(AUTHORITY_READ_HEADER);
  return { status: response.status, text: await boundedText(response), readsAuthority };
}

function refused(status: number): Fault {
  return new Fault(500, `the guest refused its settings with status ${status}`);
}

/** Polling interval: at most a sixth of the elapsed time is lost. */
export function pauseAfter(elapsedMs: number): number {
  return Math.min(Math.max(elapsedMs / 6, GUEST_POLL_MIN_MS), GUEST_POLL_MAX_MS);
}

/** Undefined when this is not a guest's response. */
export function forwardedPort(text: string): number | undefined {
  const { port } = (jsonObject(text) ?? {}) as Partial<ForwardAnswer>;
  return Number.isInteger(port) && Number(port) > 0 && Number(port) < 65_536 ? port : undefined;
}
