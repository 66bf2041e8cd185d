/** A service inside a sandbox, called from the machine, that keeps its whole state in memory. */
import type { Machine } from "../../src/host/machine.ts";
import { ask, startPython } from "./inside.ts";

export const SERVICE_PORT = 4567;

/** Runs `setup` once, and `answer`, the body of a Python function, for each request. Returns its first answer. */
export async function startService(machine: Machine, id: string, setup: string, answer: string): Promise<string> {
  const program = `
import ctypes, os, signal, socket, threading, time
libc = ctypes.CDLL(None, use_errno=True)
${setup}
server = socket.create_server(("0.0.0.0", ${SERVICE_PORT}))
def answer():
    ${answer}
while True:
    client, _ = server.accept()
    client.makefile().readline()
    client.sendall(str(answer()).encode())
    client.close()
`;
  await startPython(machine, id, program);
  return await askService(machine, id);
}

export function askService(machine: Machine, id: string): Promise<string> {
  return ask(machine, id, SERVICE_PORT);
}
