/**
 * The host's side door: configure, forward, ping. It opens only with the secret that host and guest share; without it the
 * paths do not exist.
 */

import { Fault } from "../contract/fault.ts";
import { CONTROL_PREFIX, CONTROL_SECRET_HEADER, type ForwardAnswer } from "../contract/guest-control.ts";
import { CONTROL_BODY_MAX_BYTES } from "../contract/limits.ts";
import { matchesAny } from "./access.ts";
import { publishInternalVariables } from "./environment.ts";
import type { Forwarders } from "./forwarder.ts";
import { parseSettings, type SettingsKeeper } from "./settings.ts";

const PORT_MAX = 65_535;

export class ControlChannel {
  readonly #secret: string | undefined;
  readonly #settings: SettingsKeeper;
  readonly #forwarders: Forwarders;
  readonly #variablesFolder: string;

  constructor(secret: string | undefined, settings: SettingsKeeper, forwarders: Forwarders, variablesFolder: string) {
    this.#secret = secret;
    this.#settings = settings;
    this.#forwarders = forwarders;
    this.#variablesFolder = variablesFolder;
  }

  /** Whether this request comes from the host. Any other request for these paths is one for an unknown path. */
  admits(request: Request, path: string): boolean {
    if (!path.startsWith(CONTROL_PREFIX) || !this.#secret) return false;
    return matchesAny(request.headers.get(CONTROL_SECRET_HEADER) ?? "", [this.#secret]);
  }

  async handle(request: Request, path: string): Promise<Response> {
    switch (`${request.method} ${path.slice(CONTROL_PREFIX.length)}`) {
      case "GET ping":
        return new Response(null, { status: 204 });
      case "POST configure":
        return this.#configure(await readJson(request));
      case "POST forward":
        return this.#forward(await readJson(request));
      default:
        throw new Fault(404, `no control operation ${request.method} ${path}`);
    }
  }

  #configure(json: unknown): Response {
    const settings = parseSettings(json);
    this.#settings.replace(settings);
    publishInternalVariables(settings, this.#variablesFolder);
    return new Response(null, { status: 204 });
  }

  async #forward(json: unknown): Promise<Response> {
    const wanted = parsePort(json);
    const port = await this.#forwarders.open(wanted);
    if (port === undefined) throw new Fault(404, `nothing listens on port ${wanted} of a loopback address`);
    const answer: ForwardAnswer = { port };
    return Response.json(answer);
  }
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
