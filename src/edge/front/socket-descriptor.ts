/** Bun's sockets and listeners tell their descriptors, though their type does not. */
import type { Socket, TCPSocketListener } from "bun";

/** Undefined: it has none, or none any more. */
export function descriptorOf(socket: Socket<unknown> | TCPSocketListener<unknown> | undefined): number | undefined {
  const { fd } = (socket ?? {}) as { fd?: unknown };
  return typeof fd === "number" && fd >= 0 ? fd : undefined;
}
