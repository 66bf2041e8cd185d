/** Reads the descriptors of Bun's sockets and listeners, which their types do not list. */
import type { Socket, TCPSocketListener } from "bun";

/** Undefined if there is no descriptor, or no longer. */
export function descriptorOf(socket: Socket<unknown> | TCPSocketListener<unknown> | undefined): number | undefined {
  const { fd } = (socket ?? {}) as { fd?: unknown };
  return typeof fd === "number" && fd >= 0 ? fd : undefined;
}
