/** Workloads: servers, and connections to them that stay within the sandbox. */
import { expect } from "bun:test";
import type { Conversation } from "./conversation.ts";
import type { Stage } from "./stage.ts";
import type { Workload } from "./workload.ts";

const NODE_PORT = 8000;
const BUN_PORT = 8001;

async function answerFrom(stage: Stage, port: number): Promise<string> {
  return await (await fetch(`http://${stage.address}:${port}/`, { keepalive: false })).text();
}

/** The server answers with its own word and its number of requests, from inside and outside. */
async function counts(stage: Stage, port: number, runtime: string, program: string): Promise<void> {
  const path = `/home/user/server-${port}.js`;
  await stage.sandbox.files.write(path, program);
  const server = await stage.command(`exec ${runtime} ${path}`);
  await server.hear(/listening/);
  const [word, count] = (await answerFrom(stage, port)).split(" ");
  expect([word, count]).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), "1"]);
  await stage.pauseAndResume();
  expect(await answerFrom(stage, port)).toBe(`${word} 2`);
  expect(await stage.run(`curl -s http://localhost:${port}/`)).toBe(`${word} 3`);
}

const UNIX_SERVER = `
import os, socketserver, threading
word = os.urandom(16).hex()
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for count, line in enumerate(self.rfile): self.wfile.write(f"<{word} {count} {line.decode().strip()}>\\n".encode())
class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): daemon_threads = True
other = Server("\\0in-no-folder", Handler)
threading.Thread(target=other.serve_forever, daemon=True).start()
server = Server("/tmp/server.sock", Handler)
print("listening")
server.serve_forever()
`;

const UNIX_CLIENT = `
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1].replace("@", "\\0"))
f = s.makefile("rw")
for line in sys.stdin:
    f.write(line); f.flush(); print(f.readline(), end="", flush=True)
`;

export const servers: Workload[] = [
  {
    what: "a Node HTTP server",
    fate: "kept",
    async play(stage) {
      const program = `
        const word = require("crypto").randomUUID(); let count = 0;
        const server = require("http").createServer((request, response) => response.end(word + " " + ++count));
        server.listen(${NODE_PORT}, () => console.log("listening"));`;
      await counts(stage, NODE_PORT, "node", program);
    },
  },
  {
    what: "a Bun HTTP server",
    fate: "kept",
    async play(stage) {
      await stage.sandbox.files.write("/home/user/bun", Bun.file(process.execPath).stream());
      await stage.run("chmod +x bun");
      const program = `
        const word = crypto.randomUUID(); let count = 0;
        Bun.serve({ port: ${BUN_PORT}, fetch: () => new Response(word + " " + ++count) });
        console.log("listening");`;
      await counts(stage, BUN_PORT, "./bun", program);
    },
  },
  {
    what: "a server on Unix sockets, with clients connected",
    fate: "kept",
    async play(stage) {
      const server = await stage.python(UNIX_SERVER);
      await server.hear(/listening/);
      await stage.sandbox.files.write("/tmp/client.py", UNIX_CLIENT);
      const connect = (name: string) => stage.command(`exec python3 -u /tmp/client.py ${name}`);
      const clients: [string, Conversation, string][] = [];
      for (const name of ["/tmp/server.sock", "@in-no-folder"]) {
        const client = await connect(name);
        clients.push([name, client, await client.ask("one", /<(\w+) 0 one>/)]);
      }
      await stage.pauseAndResume();
      for (const [name, client, word] of clients) {
        expect(await client.ask("two", /<(\w+) 1 two>/)).toBe(word);
        const newcomer = await connect(name);
        expect(await newcomer.ask("three", /<(\w+) 0 three>/)).toBe(word);
      }
    },
  },
  {
    what: "Redis, with clients on the loopback, one of them waiting for a value",
    fate: "kept",
    async play(stage) {
      await stage.command("exec redis-server --save '' --port 6379");
      await stage.run("until redis-cli ping; do sleep 0.05; done");
      const client = await stage.command("exec redis-cli");
      expect(await client.ask("incr counter", /\d+/)).toBe("1");
      const waiting = await stage.command("exec redis-cli blpop queue 0");
      await stage.run("until redis-cli client list | grep -q blpop; do sleep 0.05; done");
      await stage.pauseAndResume();
      expect(await client.ask("incr counter", /\d+/)).toBe("2");
      await client.ask("rpush queue pushed-later", /\d+/);
      await waiting.hear(/pushed-later/);
      expect(await waiting.ended()).toBe(0);
    },
  },
];
