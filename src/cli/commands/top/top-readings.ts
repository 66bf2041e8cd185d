/** What `sandlot top` reads from the server. */
import type { AdminSandbox, ServerStatus } from "../../server/admin/server-status.ts";
import type { Sample } from "./top-table.ts";

/** Sends a request such as `GET /status` to the admin socket. */
export type AdminCall = (request: string) => Promise<Response>;

export async function sampleOf(call: AdminCall): Promise<Sample> {
  const response = await call("GET /sandboxes");
  return { atMs: Date.now(), sandboxes: (await response.json()) as AdminSandbox[] };
}

export async function statusOf(call: AdminCall): Promise<ServerStatus> {
  return (await (await call("GET /status")).json()) as ServerStatus;
}
