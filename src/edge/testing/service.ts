/** Services of sandboxes that speak HTTP and WebSocket as Bun does. For others see RawService. */

/** A service of a test, on a free port unless one is given. */
export function serve(
  fetch: (request: Request, server: Bun.Server<undefined>) => Response | undefined | Promise<Response | undefined>,
  { port = 0, open, message = () => undefined }: Partial<Bun.WebSocketHandler<undefined>> & { port?: number } = {},
): { port: number } & AsyncDisposable {
  const websocket = { message, ...(open && { open }) };
  const server = Bun.serve({ port, hostname: "127.0.0.1", idleTimeout: 0, fetch, websocket });
  return { port: server.port ?? 0, [Symbol.asyncDispose]: () => server.stop(true) };
}

/** Answers nothing but WebSockets. */
export const upgrading = (request: Request, server: Bun.Server<undefined>) =>
  server.upgrade(request) ? undefined : new Response("no", { status: 400 });
