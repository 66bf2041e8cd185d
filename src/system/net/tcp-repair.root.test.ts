import { expect, test } from "bun:test";
import { endTcpRepair } from "./tcp-repair.ts";

/** Leaves a connection as a failed CRIU would, prints what arrives on it, and again on request. */
const PROGRAM = `
import socket, sys
TCP_REPAIR = 19
lobby = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(lobby.getsockname())
far, _ = lobby.accept()
near.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
def send():
    try:
        near.sendall(b"word")
        return far.recv(4).decode()
    except OSError as error: return type(error).__name__
print(send(), flush=True)
sys.stdin.readline()
print(send(), flush=True)
`;

test("a connection left in repair mode works again", async () => {
  const child = Bun.spawn(["python3", "-c", PROGRAM], { stdin: "pipe", stdout: "pipe" });
  let output = "";
  const decoder = new TextDecoder();
  for await (const piece of child.stdout) {
    output += decoder.decode(piece, { stream: true });
    if (output.split("\n").length !== 2) continue;
    endTcpRepair([child.pid]);
    child.stdin.write("go on\n");
    await child.stdin.flush();
  }
  expect(output).toBe("OSError\nword\n");
});
