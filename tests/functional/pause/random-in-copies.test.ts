/** Random numbers in copies of one checkpoint that are all made at once. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { until } from "../../support/until.ts";

const server = sharedServer();

const PORT = 8765;
/**
 * Draws from the kernel through a library that keeps a stock where the kernel allows it (MAP_DROPPABLE, "dp"), and
 * shows which memory the library has marked to be wiped in forks. The library's next draw comes from its stock.
 */
const PROGRAM = `
import http.server, json, mmap, os, re
marked = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
marked.madvise(18)
marked[:4] = b"mark"
os.urandom(16)

def stock():
    with open("/proc/self/smaps") as maps, open("/proc/self/mem", "rb") as memory:
        for mapping in re.split(r"\\n(?=[0-9a-f]+-)", maps.read()):
            if re.search(r"^VmFlags:.* dp\\b", mapping, re.M):
                memory.seek(int(mapping.split("-")[0], 16))
                return memory.read(mmap.PAGESIZE).strip(b"\\0").hex()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = {"stock": stock(), "drawn": os.urandom(16).hex(), "marked": marked[:4].strip(b"\\0").decode()}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

http.server.HTTPServer(("127.0.0.1", ${PORT}), Handler).serve_forever()
`;

interface Said {
  /** Undefined where the kernel has no such thing, before Linux 6.11. */
  stock: string | null;
  drawn: string;
  marked: string;
}

async function ask(sandbox: Sandbox): Promise<Said> {
  const curl = `curl --silent --retry 60 --retry-delay 1 --retry-connrefused http://127.0.0.1:${PORT}/`;
  return JSON.parse((await sandbox.commands.run(curl)).stdout) as Said;
}

async function forked({ sandboxId }: Sandbox, count: number): Promise<Sandbox[]> {
  const { body } = await server().call("POST", `/sandboxes/${sandboxId}/fork`, { count, timeout: 300 });
  const entries = body as { sandbox: { sandboxID: string } }[];
  return await Promise.all(entries.map(({ sandbox }) => Sandbox.connect(sandbox.sandboxID, server().options)));
}

test("each copy draws its own random numbers and finds MADV_WIPEONFORK memory empty; a resume keeps that memory", async () => {
  const original = await Sandbox.create(server().options);
  await original.files.write("/home/user/program.py", PROGRAM);
  await original.commands.run("exec python3 program.py", { background: true, timeoutMs: 0 });
  const before = await ask(original);

  const { snapshotId } = await original.createSnapshot();
  const snapshots = await Promise.all([1, 2, 3].map(() => Sandbox.create(snapshotId, server().options)));
  const copies = [...snapshots, ...(await forked(original, 3))];
  const output = await Promise.all(copies.map(ask));
  let after = await ask(original);

  expect(new Set([before, ...output, after].map(({ drawn }) => drawn)).size).toBe(copies.length + 2);
  // Otherwise this shows nothing. The kernel empties the stock once a minute, or when memory is short.
  await until("what is drawn comes from the stock, where there is one", async () => {
    after = await ask(original);
    return after.stock === null || after.stock.includes(after.drawn);
  });
  for (const { stock } of output) expect(stock ?? "").toBe("");
  expect(output.map(({ marked }) => marked)).toEqual(copies.map(() => ""));
  expect(after.marked).toBe("mark");

  await original.pause();
  expect((await ask(await original.connect())).marked).toBe("mark");
});
