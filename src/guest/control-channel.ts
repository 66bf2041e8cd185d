/**
 * Control channel for the host: configure, renew, replace, forward, collect, ping, journal. It requires the secret that
 * host and guest share; without the secret these paths respond like unknown paths.
 */
import { readFileSync } from "node:fs";
import { kernelUuid } from "../base/kernel-random.ts";
import { systemCode } from "../base/system-code.ts";
import { Fault } from "../contract/fault.ts";
import {
  AUTHORITY_READ_HEADER,
  CONTROL_PREFIX,
  CONTROL_SECRET_HEADER,
  type ForwardAnswer,
  SETTINGS_LOST_STATUS,
} from "../contract/runtime/guest-control.ts";
import type { Journal } from "./journal/journal.ts";
import type { LazyPart } from "./lazy-part.ts";
import type { Forwarders } from "./system/forwarder.ts";
import { collectLater } from "./system/garbage.ts";
import { logNotice } from "./system/log.ts";
import { renewMachineId } from "./system/machine-id.ts";
import type { MeminfoFile } from "./system/meminfo-file.ts";
import { quote } from "./system/quote.ts";
import { trustRules } from "./system/rule-trust.ts";
import { wholeNumber } from "./system/whole-number.ts";
import { matchesAny } from "./users/access.ts";
import { publishInternalVariables } from "./users/environment.ts";
import { parseSettings, type SettingsKeeper } from "./users/settings.ts";

/** Delay between the response to a renew or replace request and the end of the guest. */
const RENEWED_AFTER_MS = 20;
const CONTROL_BODY_MAX_BYTES = 4 * 1024 * 1024;

const PORT_MAX = 65_535;
const NEWLINE = 10;
const POSITION_DIGITS_MAX = 15;

interface Controlled {
  settings: SettingsKeeper;
  forwarders: LazyPart<Forwarders>;
  journal: Journal;
  meminfoFile: MeminfoFile;
  variablesFolder: string;
  /** Hands the output of running processes to other readers, so that they survive the end of this guest. */
  handOverOutputs(): Promise<void>;
  /** Ends this guest process; init then starts another one. */
  end(): void;
}

export class ControlChannel {
  constructor(
    private readonly secretFile: string,
    private readonly controlled: Controlled,
  ) {}

  /** Configures the guest if the host has written the settings of a sandbox. Called at the start of every request. */
  takeSettings(): void {
    if (this.controlled.settings.sandboxId !== "") return;
    const { settings } = readShown(this.secretFile);
    if (settings !== "") configureBy(this.controlled, settings);
  }

  /** Whether this request comes from the host. To all others, these paths are unknown paths. */
  admits(request: Request, path: string): boolean {
    if (!path.startsWith(CONTROL_PREFIX)) return false;
    // Read on every request, because a restored copy of this process has another secret.
    const { secret } = readShown(this.secretFile);
    return secret !== "" && matchesAny(request.headers.get(CONTROL_SECRET_HEADER) ?? "", [secret]);
  }

  async handle(request: Request, path: string): Promise<Response> {
    const { controlled } = this;
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
      case "POST collect":
        Bun.gc(true);
        return new Response(null, { status: 204 });
      case "POST forward":
        return forward(await controlled.forwarders.load(), await readJson(request));
      default:
        throw new Fault(404, `no control operation ${request.method} ${quote(path)}`);
    }
  }
}

/** Without a file, the secret is empty and no request is admitted. */
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

/** Fault 503 for incomplete settings: the sandbox has an owner, but its tokens are unknown. */
function configureBy(controlled: Controlled, settings: string): void {
  try {
    configure(controlled, JSON.parse(settings));
  } catch (cause) {
    throw new Fault(503, "this sandbox's settings cannot be used", { cause, retryAfterSeconds: 1 });
  }
}

function configure({ settings, journal, meminfoFile, variablesFolder }: Controlled, json: unknown): Response {
  const fresh = parseSettings(json);
  const known = settings.sandboxId;
  // A guest that was booted ahead of time, or that is a copy, drops entries from before this sandbox began.
  if (fresh.sandboxId !== known) journal.beginAnew();
  if (known !== "" && fresh.sandboxId !== known) renewMachineId();
  const { trustedAuthority } = fresh;
  const trustVariables = trustRules(trustedAuthority, { root: "", folder: variablesFolder });
  settings.replace(trustedAuthority === undefined ? fresh : { ...fresh, trustVariables });
  publishInternalVariables(fresh, variablesFolder);
  // A resumed sandbox has a new memory file without valid figures, so write it now. A booting sandbox has one as well,
  // but no process can read it yet, and the first process start updates it.
  if (known !== "") meminfoFile.write();
  if (fresh.sandboxId !== "") collectLater();
  return new Response(null, { status: 204, headers: { [AUTHORITY_READ_HEADER]: "1" } });
}

/**
 * Process memory may still hold every secret the guest ever received, even after it was overwritten. Before the memory
 * becomes part of a template, a new process replaces this one. The sandbox keeps its id, by which a copy recognises
 * that it is a copy.
 */
function renew(controlled: Controlled): Promise<Response> {
  const { settings } = controlled;
  settings.replace({ ...settings.current, envVars: {}, accessTokens: [kernelUuid()] });
  return replace(controlled);
}

/** Replaces this process by a new one with the same settings. Running user processes continue. */
async function replace({ handOverOutputs, end }: Controlled): Promise<Response> {
  await handOverOutputs();
  setTimeout(end, RENEWED_AFTER_MS);
  // The stream is never closed: it breaks when this process ends, which tells the host that the guest is gone.
  const begun = new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array([NEWLINE])) });
  return new Response(begun, { headers: { "Content-Type": "text/plain" } });
}

/** Tells the host that settings were lost: the host always calls this soon after a guest was restarted. */
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
