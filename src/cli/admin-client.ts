/** Calls of the operator's commands to the running server, through its admin socket. */
import { Fault } from "../contract/fault.ts";
import { DataFolder } from "../system/data-folder.ts";
import { requireRoot } from "./prepare.ts";
import type { Config } from "./settings/config.ts";

const CALL_MS = 60_000;

interface CallOptions {
  body?: object;
  headers?: Record<string, string>;
  callMs?: number;
}

/** Sends a request such as `GET /status`. Fault 404 if no server runs on the data folder. */
export async function adminCall(
  { dataFolder }: Pick<Config, "dataFolder">,
  request: string,
  options: CallOptions = {},
): Promise<Response> {
  requireRoot();
  if (!DataFolder.isAt(dataFolder)) throw noServer(dataFolder);
  return await callSocket(new DataFolder(dataFolder), request, options);
}

export async function callSocket(
  data: Pick<DataFolder, "path" | "adminSocket">,
  request: string,
  { body, headers = {}, callMs = CALL_MS }: CallOptions = {},
): Promise<Response> {
  const [method = "", path = ""] = request.split(" ");
  let response: Response;
  try {
    response = await fetch(`http://sandlot${path}`, {
      method,
      unix: data.adminSocket,
      signal: AbortSignal.timeout(callMs),
      headers: body === undefined ? headers : { ...headers, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
  } catch (cause) {
    const { name, code, message } = cause as Error & { code?: unknown };
    if (code === "ENOENT" || code === "ECONNREFUSED") throw noServer(data.path, cause);
    if (name === "TimeoutError") {
      throw new Fault(504, `the server did not answer ${request} within ${callMs / 1000} s`, { cause });
    }
    throw new Fault(502, `the server on ${data.path} did not answer ${request}: ${message}`, { cause });
  }
  if (response.ok) return response;
  const { message = response.statusText } = (await response.json().catch(() => ({}))) as { message?: string };
  throw new Fault(response.status, message);
}

function noServer(dataFolder: string, cause?: unknown): Fault {
  return new Fault(404, `no server runs on ${dataFolder}. FIX: start it with \`sandlot up\``, { cause });
}
