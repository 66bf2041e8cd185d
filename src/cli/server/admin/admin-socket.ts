/**
 * The admin socket: HTTP for the commands of the machine's operator, on a Unix socket that only root can reach. It
 * needs no key and covers the sandboxes of all teams. Its form may change with each version: the commands are part
 * of the same package.
 */
import { chmodSync, mkdirSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { Fault } from "../../../contract/fault.ts";

/** By `METHOD /path`; a handler gets the parts of the path that are `{id}`. The result is sent as JSON, or as text. */
export type AdminRoutes = Readonly<Record<string, (id: string) => Promise<unknown>>>;

/** Requests for administrators, and for secrets of a team, go to the management API as requests of root. */
const OF_MANAGEMENT = /^\/(?:admin|nodes|secrets)(?:\/|$)/;

export function serveAdmin(
  path: string,
  routes: AdminRoutes,
  manage: (request: Request) => Promise<Response>,
): { stop(): Promise<void> } {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  chmodSync(dirname(path), 0o700);
  // A killed server leaves its socket behind.
  rmSync(path, { force: true });
  const server = Bun.serve({
    unix: path,
    development: false,
    async fetch(request) {
      if (OF_MANAGEMENT.test(new URL(request.url).pathname)) return await manage(request);
      try {
        return await respond(request, routes);
      } catch (thrown) {
        const fault = Fault.from(thrown);
        return Response.json(fault.toBody(), { status: fault.status });
      }
    },
  });
  return { stop: () => server.stop(true) };
}

async function respond(request: Request, routes: AdminRoutes): Promise<Response> {
  const { pathname } = new URL(request.url);
  const [, group = "", id, ...rest] = pathname.split("/");
  const name = `${request.method} /${[group, ...(id === undefined ? [] : ["{id}"]), ...rest].join("/")}`;
  const route = routes[name];
  if (route === undefined) throw new Fault(404, `the admin socket has no ${name}`);
  const result = await route(decoded(id ?? ""));
  if (result === undefined) return new Response(null, { status: 204 });
  return typeof result === "string" ? new Response(result) : Response.json(result);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw new Fault(400, `${part} is not valid percent-encoding`, { cause });
  }
}
