/** Calls of the operator's commands to the running server, through its admin socket. */
import { Fault } from "../../contract/fault.ts";
import { DataFolder } from "../../system/data-folder.ts";
import type { Config } from "../config.ts";
import { requireRoot } from "../prepare.ts";

const CALL_MS = 60_000;

/** Sends a request such as `GET /status`. Fault 404 if no server runs on the data folder. */
export async function adminCall({ dataFolder }: Pick<Config, "dataFolder">, request: string): Promise<Response> {
  requireRoot();
  const noServer = (cause?: unknown) =>
    new Fault(404, `no server runs on ${dataFolder}. FIX: start it with \`sandlot up\``, { cause });
  if (!DataFolder.isAt(dataFolder)) throw noServer();
  const unix = new DataFolder(dataFolder).adminSocket;
  const [method = "", path = ""] = request.split(" ");
  let response: Response;
  try {
    response = await fetch(`http://sandlot${path}`, { method, unix, signal: AbortSignal.timeout(CALL_MS) });
  } catch (cause) {
    if (cause instanceof Error && cause.name === "TimeoutError") {
      throw new Fault(504, `the server did not answer ${request} within ${CALL_MS / 1000} s`, { cause });
    }
    throw noServer();
  }
  if (response.ok) return response;
  const { message = response.statusText } = (await response.json().catch(() => ({}))) as { message?: string };
  throw new Fault(response.status, message);
}

export async function printMetrics(config: Config): Promise<number> {
  process.stdout.write(await (await adminCall(config, "GET /metrics")).text());
  return 0;
}
