/**
 * A program in a sandbox that holds a word in its memory and nowhere else, and keeps a file and an open connection. Its
 * answer shows whether this is still the same process, whether the disk is intact, and whether the connection works.
 */
import { Sandbox } from "e2b";
import type { TestServer } from "../support/server.ts";
import { until } from "../support/until.ts";

const PORT = 4999;
const FILE = "/home/user/kept";
const PROGRAM = `
import os, socket
word = os.urandom(16).hex()
lobby = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(lobby.getsockname())
far, _ = lobby.accept()
far.settimeout(10)
def line():
    try:
        near.sendall(word.encode())
        return far.recv(len(word), socket.MSG_WAITALL).decode()
    except OSError as error: return type(error).__name__
open("${FILE}", "w").write(word)
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("0.0.0.0", ${PORT}))
server.listen()
while True:
    client, _ = server.accept()
    try:
        client.recv(65536)
        body = f"{word} {open('${FILE}').read()} {line()}".encode()
        client.sendall(b"HTTP/1.1 200 OK\\r\\nconnection: close\\r\\ncontent-length: %d\\r\\n\\r\\n%s" % (len(body), body))
    except OSError: pass
    client.close()
`;

interface Reachable {
  server: Pick<TestServer, "url" | "options">;
}

/**
 * Starts a witness and returns its word. The sandbox lives for at least `timeoutMs` from now; by default, for the
 * client's five minutes.
 */
export async function plantWitness(stage: Reachable, id: string, timeoutMs?: number): Promise<string> {
  const sandbox = await Sandbox.connect(id, { ...stage.server.options, ...(timeoutMs && { timeoutMs }) });
  await sandbox.files.write("/tmp/witness.py", PROGRAM);
  await sandbox.commands.run("setsid python3 /tmp/witness.py </dev/null >/dev/null 2>&1 &");
  let word = "";
  await until("the witness speaks", async () => {
    word = (await readWitness(stage, id))?.word ?? "";
    return word !== "";
  });
  return word;
}

interface WitnessReport {
  word: string;
  /** The content of its file: the word. */
  file: string;
  /** The data from a connection within the sandbox: the word, or an error. */
  line: string;
}

export async function readWitness(stage: Reachable, id: string): Promise<WitnessReport | undefined> {
  const headers = { "e2b-sandbox-id": id, "e2b-sandbox-port": String(PORT) };
  try {
    const response = await fetch(stage.server.url, { headers, keepalive: false, signal: AbortSignal.timeout(20_000) });
    if (response.status !== 200) return undefined;
    const [word = "", file = "", line = ""] = (await response.text()).split(" ");
    return { word, file, line };
  } catch {
    return undefined;
  }
}
