/**
 * The host's side door: configure, renew, forward, ping, journal. It opens only with the secret that host and guest
 * share; without it the paths do not exist.
 */

import { readFileSync } from "node:fs";
import { Fault } from "../contract/fault.ts";
import {
  CONTROL_PREFIX,
  CONTROL_SECRET_HEADER,
  type ForwardAnswer,
  SETTINGS_LOST_STATUS,
} from "../contract/runtime/guest-control.ts";
import type { Journal } from "./journal/journal.ts";
import type { LaterPart } from "./later-part.ts";
import type { Forwarders } from "./system/forwarder.ts";
import { collectLater } from "./system/garbage.ts";
import { kernelUuid } from "./system/kernel-random.ts";
import { logNotice } from "./system/log.ts";
import type { MeminfoFile } from "./system/meminfo-file.ts";
import { takeOwnIdentity } from "./system/own-identity.ts";
import { quote } from "./system/quote.ts";
import { systemCode } from "./system/rpc-fault.ts";
import { wholeNumber } from "./system/whole-number.ts";
import { matchesAny } from "./users/access.ts";
import { publishInternalVariables } from "./users/environment.ts";
import { parseSettings, type SettingsKeeper } from "./users/settings.ts";

/** From the answer to a request to be renewed until the guest ends: the answer is on its way by then. */
const RENEWED_AFTER_MS = 20;
const CONTROL_BODY_MAX_BYTES = 4 * 1024 * 1024;

const PORT_MAX = 65_535;
const NEWLINE = 10;
const POSITION_DIGITS_MAX = 15;

export interface ControlChannel {
  /** Makes the sandbox somebody's if the host has written whose it is. For every request, before it is looked at. */
  takeSettings(): void;
  /** Whether this request comes from the host. Any other request for these paths is one for an unknown path. */
  admits(request: Request, path: string): boolean;
  handle(request: Request, path: string): Promise<Response>;
}

/** What the host's words have an effect on. */
interface Controlled {
  settings: SettingsKeeper;
  forwarders: LaterPart<Forwarders>;
  journal: Journal;
  meminfoFile: MeminfoFile;
  variablesFolder: string;
  /** Lets all processes go on without this guest. */
  letGo(): Promise<void>;
  /** Ends this guest; another one is started in its place. */
  end(): void;
}

export function createControlChannel(secretFile: string, controlled: Controlled): ControlChannel {
  return {
    takeSettings() {
      if (controlled.settings.sandboxId !== "") return;
      const { settings } = readShown(secretFile);
      if (settings !== "") configureBy(controlled, settings);
    },

    admits(request, path) {
      if (!path.startsWith(CONTROL_PREFIX)) return false;
      // Read each time: in a copy of this process, it is another one.
      const { secret } = readShown(secretFile);
      return secret !== "" && matchesAny(request.headers.get(CONTROL_SECRET_HEADER) ?? "", [secret]);
    },

    async handle(request, path) {
      switch (`${request.method} ${path.slice(CONTROL_PREFIX.length)}`) {
        case "GET ping":
          return new Response(null, { status: 204 });
        case "GET journal":
          return listen(controlled, new URLSearchParams(request.url.slice(request.url.indexOf("?") + 1)));
        case "POST configure":
          return configure(controlled, await readJson(request));
        case "POST renew":
          return renew(controlled);
        case "POST replace":
          return replace(controlled);
        case "POST forward":
          return forward(await controlled.forwarders.take(), await readJson(request));
        default:
          throw new Fault(404, `no control operation ${request.method} ${quote(path)}`);
      }
    },
  };
}

/** The secret is empty where there is none: then nobody is admitted. */
function readShown(file: string): { secret: string; settings: string } {
  try {
    const text = readFileSync(file, "utf8");
    const end = text.indexOf("\n");
    if (end < 0) return { secret: text, settings: "" };
    return { secret: text.slice(0, end), settings: text.slice(end + 1) };
  } catch (thrown) {
    logNotice("the control secret cannot be read", { reason: systemCode(thrown) });
    return { secret: "", settings: "" };
  }
}

/** Fault 503 for what is not whole: the sandbox is somebody's, and nobody knows whose. */
function configureBy(controlled: Controlled, settings: string): void {
  try {
    configure(controlled, JSON.parse(settings));
  } catch (cause) {
    throw new Fault(503, "this sandbox's settings cannot be used", { cause, headers: { "Retry-After": "1" } });
  }
}

function configure({ settings, journal, meminfoFile, variablesFolder }: Controlled, json: unknown): Response {
  const fresh = parseSettings(json);
  const known = settings.sandboxId;
  // Booted ahead of time, or a copy: what happened until now did not happen in this sandbox.
  if (fresh.sandboxId !== known) journal.beginAnew();
  if (known !== "" && fresh.sandboxId !== known) takeOwnIdentity();
  settings.replace(fresh);
  publishInternalVariables(fresh, variablesFolder);
  // A sandbox that was paused until now has a new one, in which nothing is true yet. So has one that boots; but nothing
  // runs there that could look, and the first process that is started brings it up to date.
  if (known !== "") meminfoFile.write();
  if (fresh.sandboxId !== "") collectLater();
  return new Response(null, { status: 204 });
}

/**
 * What this process was ever told is somewhere in its memory, also what was overwritten or forgotten since: before that
 * becomes part of a template, another process takes its place. Its sandbox keeps its id, by which a copy knows that it
 * is one.
 */
function renew(controlled: Controlled): Promise<Response> {
  const { settings } = controlled;
  settings.replace({ ...settings.current, envVars: {}, accessTokens: [kernelUuid()] });
  return replace(controlled);
}

/** Another process takes the place of this one, with the same settings. What this one has started goes on. */
async function replace({ letGo, end }: Controlled): Promise<Response> {
  await letGo();
  setTimeout(end, RENEWED_AFTER_MS);
  // Never closed: it breaks off when this process is gone, and who waits for that needs no other sign.
  const begun = new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array([NEWLINE])) });
  return new Response(begun, { headers: { "Content-Type": "text/plain" } });
}

/** A host hears by this that settings were lost: it is here, always, soon after a guest was started again. */
function listen({ settings, journal }: Controlled, query: URLSearchParams): Response {
  if (settings.areLost) {
    throw new Fault(SETTINGS_LOST_STATUS, "this guest's settings were damaged: configure it before you listen");
  }
  const after = wholeNumber(query.get("after") ?? undefined, POSITION_DIGITS_MAX) ?? 0;
  const stream = journal.listen(query.get("journal") ?? "", after);
  return new Response(stream, { headers: { "Content-Type": "application/x-ndjson" } });
}

async function forward(forwarders: Forwarders, json: unknown): Promise<Response> {
  const wanted = parsePort(json);
  const port = await forwarders.open(wanted);
  if (port === undefined) throw new Fault(404, `nothing listens on port ${wanted} of a loopback address`);
  const answer: ForwardAnswer = { port };
  return Response.json(answer);
}

async function readJson(request: Request): Promise<unknown> {
  if (Number(request.headers.get("content-length") ?? "0") > CONTROL_BODY_MAX_BYTES) {
    throw new Fault(413, `control messages have at most ${CONTROL_BODY_MAX_BYTES} bytes`);
  }
  try {
    return await request.json();
  } catch (thrown) {
    throw new Fault(400, "the control message is not JSON", { cause: thrown });
  }
}

function parsePort(json: unknown): number {
  const port = typeof json === "object" && json !== null && "port" in json ? json.port : undefined;
  if (typeof port !== "number" || !Number.isInteger(port) || port < 1 || port > PORT_MAX) {
    throw new Fault(400, `port must be a whole number from 1 to ${PORT_MAX}`);
  }
  return port;
}
