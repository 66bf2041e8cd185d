/** What a pause keeps, on the real machine: memory, files, and nothing else that costs anything. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BASE_TEMPLATE } from "../../src/contract/base-template.ts";
import type { Fault } from "../../src/contract/fault.ts";
import { attempt } from "../../src/host/command.ts";
import { DataFolder } from "../../src/host/data-folder.ts";
import type { CreateSandbox, SandboxKind } from "../../src/host/host.ts";
import { applySettings } from "../../src/host/host-changes.ts";
import { Machine } from "../../src/host/machine.ts";
import { BASE_IMAGE } from "../../src/host/setup/base-image.ts";
import { guestFolder } from "../../src/host/setup/guest-folder.ts";
import { takeDown } from "../../src/host/take-down.ts";
import { Toolbox } from "../../src/host/toolbox.ts";
import { NOTHING, settledCensus } from "../census.ts";
import { until } from "../e2e/until.ts";
import { newDataFolder } from "../server.ts";
import { ask, Line, recordOf, shell, startPython } from "./inside.ts";

const CACHE = process.env.SANDLOT_CACHE ?? "/var/cache/sandlot";
const kind: SandboxKind = { ...BASE_TEMPLATE, templateId: BASE_TEMPLATE.id, image: BASE_IMAGE };
const request: CreateSandbox = { kind, envVars: {}, accessTokens: [], internet: false };
const PORT = 4567;

const dataFolder = newDataFolder("pause");
let data: DataFolder;
let machine: Machine;

function openMachine(): Promise<Machine> {
  return Machine.open({
    data,
    cacheFolder: CACHE,
    guestFolder: guestFolder(new Toolbox(CACHE)),
    resolver: "9.9.9.9",
    readyPerKind: 0,
  });
}

beforeAll(async () => {
  mkdirSync(dataFolder, { recursive: true });
  data = new DataFolder(dataFolder);
  data.makeRunFolder();
  applySettings(data);
  machine = await openMachine();
});
afterAll(async () => {
  await machine.close();
  await attempt(["umount", `${dataFolder}/disks`]);
  await takeDown(data, CACHE, { keepData: false });
});

/** Answers each line with what `answer(line)` gives; everything it knows is in its memory. */
function service(setup: string, answer: string): string {
  return `
import ctypes, json, os, select, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
${setup}
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("0.0.0.0", ${PORT}))
server.listen()
def answer(line):
    ${answer}
while True:
    client, _ = server.accept()
    line = client.makefile().readline().strip()
    client.sendall(str(answer(line)).encode())
    client.close()
`;
}

async function pauseAndResume(id: string, options: { memory: boolean } = { memory: true }): Promise<void> {
  const name = `test-${crypto.randomUUID()}`;
  await machine.pause(id, name, { memory: true });
  await machine.resume({ ...request, id, checkpoint: name, ...options });
  await machine.removeCheckpoint(name);
}

async function withSandbox(use: (id: string) => Promise<void>): Promise<void> {
  const { id } = await machine.create(request);
  try {
    await use(id);
  } finally {
    await machine.destroy(id);
  }
}

describe("a pause keeps", () => {
  const rows: [string, string, string, string][] = [
    ["a word that is only in memory", "word = os.urandom(16).hex()", "return word", ""],
    [
      "cwd, environment and umask",
      "os.chdir('/var'); os.umask(0o027)",
      "return [os.getcwd(), os.environ.get('HOME'), oct(os.umask(0o027))]",
      "",
    ],
    [
      "a pipe with something in it",
      "r, w = os.pipe(); os.write(w, b'kept')\nseen = []",
      "seen.append(os.read(r, 4).decode()) if not seen else None\n    return seen",
      "",
    ],
    [
      "a file that was deleted while open",
      "f = open('/tmp/gone', 'w+b'); f.write(b'x' * 3_000_000); f.flush(); os.unlink('/tmp/gone')",
      "f.seek(0)\n    return [len(f.read()), os.fstat(f.fileno()).st_nlink]",
      "",
    ],
    [
      "a file whose name was removed while another name stays",
      "open('/home/a-name','w').write('linked'); os.link('/home/a-name','/home/b-name'); f = open('/home/a-name'); os.unlink('/home/a-name')",
      "f.seek(0)\n    return [f.read(), os.path.exists('/home/b-name')]",
      "",
    ],
    [
      "a program of the image that was replaced while it ran",
      "f = open('/usr/bin/tar','rb'); os.unlink('/usr/bin/tar')",
      "f.seek(0)\n    return len(f.read())",
      "",
    ],
    [
      "a connected UDP socket as a socket",
      "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.connect(('169.254.0.22', 53))",
      "return u.fileno() > 0",
      "",
    ],
    [
      "a unix socket pair",
      "a, b = socket.socketpair(); a.sendall(b'in flight')\nseen = []",
      "seen.append(b.recv(9).decode()) if not seen else None\n    return seen",
      "",
    ],
    [
      "a TCP connection between two processes, with what is on its way",
      "l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen()\nc = socket.create_connection(l.getsockname()); a, _ = l.accept()\nc.sendall(b'before')",
      "a.sendall(b'!'); got = a.recv(6).decode(); c.sendall(got.encode()); return [got, c.recv(1).decode()]",
      "",
    ],
    [
      "a TCP connection whose buffers are full",
      "l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen()\nc = socket.create_connection(l.getsockname()); a, _ = l.accept(); c.setblocking(False)\nsent = 0\ntry:\n    while True: sent += c.send(os.urandom(100000))\nexcept BlockingIOError: pass\na.settimeout(3); left = [sent]",
      "n = 10000\n    got = len(a.recv(n, socket.MSG_WAITALL)); left[0] -= got\n    return got",
      "",
    ],
    [
      "shared memory",
      "import multiprocessing.shared_memory as m\ns = m.SharedMemory(create=True, size=4096); s.buf[:4] = b'shmm'",
      "return bytes(s.buf[:4])",
      "",
    ],
    [
      "a file in /run and /dev/shm",
      "open('/run/x','w').write('r'); open('/dev/shm/y','w').write('s')",
      "return open('/run/x').read() + open('/dev/shm/y').read()",
      "",
    ],
    [
      "a file lock",
      "import fcntl\nl = open('/tmp/lock','w'); fcntl.flock(l, fcntl.LOCK_EX)",
      "o = open('/tmp/lock')\n    try:\n        fcntl.flock(o, fcntl.LOCK_EX | fcntl.LOCK_NB)\n        return 'free'\n    except BlockingIOError:\n        return 'held'",
      "",
    ],
    [
      "threads",
      "count = [0]\ndef work():\n    while True: time.sleep(0.005); count[0] += 1\nthreading.Thread(target=work, daemon=True).start()\nlast = [0]",
      "time.sleep(0.05)\n    moved = count[0] > last[0]; last[0] = count[0]\n    return moved",
      "",
    ],
    [
      "an inotify watch",
      "i = libc.inotify_init1(os.O_NONBLOCK); libc.inotify_add_watch(i, b'/home', 0x100)",
      "select.select([i], [], [], 0); libc.read\n    try: os.read(i, 65536)\n    except BlockingIOError: pass\n    n='/home/'+os.urandom(4).hex(); open(n,'w').close(); e=os.read(i, 4096)\n    return n.split('/')[-1].encode() in e",
      "",
    ],
    [
      "a terminal with a shell",
      "import pty\np, t = pty.fork()\nif p == 0: os.execvp('bash', ['bash', '--norc'])\nos.write(t, b'WORD=kept\\n')",
      "os.write(t, b'echo =$WORD=\\n')\n    out=b''\n    while b'=kept=' not in out: out += os.read(t, 4096)\n    return 'kept'",
      "",
    ],
    [
      "a timer",
      "fired = []\nsignal.signal(signal.SIGALRM, lambda *_: fired.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)",
      "n = len(fired)\n    time.sleep(0.1)\n    return len(fired) > n",
      "",
    ],
    [
      "an epoll set with an eventfd",
      "e = os.eventfd(7, os.EFD_NONBLOCK); p = select.epoll(); p.register(e, select.EPOLLIN)",
      "return len(p.poll(1))",
      "",
    ],
    [
      "a stopped job",
      "p = os.fork()\nif p == 0:\n    os.kill(os.getpid(), signal.SIGSTOP); os._exit(0)\nos.waitpid(p, os.WUNTRACED)",
      "return open(f'/proc/{p}/stat').read().split()[2]",
      "",
    ],
  ];
  test.each(rows)("%s", async (_what, setup, answer) => {
    await withSandbox(async (id) => {
      await startPython(machine, id, service(setup, answer));
      const before = await ask(machine, id, PORT);
      await pauseAndResume(id);
      expect(await ask(machine, id, PORT)).toBe(before);
      // Once more: what was restored can be written again.
      await pauseAndResume(id);
      expect(await ask(machine, id, PORT)).toBe(before);
    });
  });
});

describe("while it is paused", () => {
  test("nothing of a sandbox exists but its checkpoint, and it survives the loss of all that only a running machine has", async () => {
    const { id } = await machine.create(request);
    await startPython(machine, id, service("word = os.urandom(16).hex()", "return word"));
    const word = await ask(machine, id, PORT);
    await machine.pause(id, "reboot", { memory: true });
    expect(await settledCensus(dataFolder, NOTHING)).toEqual(NOTHING);

    await machine.close();
    await attempt(["umount", `${dataFolder}/disks`]);
    await takeDown(data, CACHE, { keepData: true });
    data.makeRunFolder();
    applySettings(data);
    machine = await openMachine();
    const found = await machine.adopt({ sandboxes: new Set([id]), checkpoints: new Set(["reboot"]) });
    expect([...found.sandboxes]).toEqual([]);
    expect([...found.checkpoints]).toEqual(["reboot"]);
    await machine.resume({ ...request, id, checkpoint: "reboot", memory: true });
    expect(await ask(machine, id, PORT)).toBe(word);
    await machine.destroy(id);
    await machine.removeCheckpoint("reboot");
  });

  test("its clock that only goes forward stands still, and goes on where it was", async () => {
    await withSandbox(async (id) => {
      await startPython(machine, id, service("", "return time.monotonic()"));
      const before = Number(await ask(machine, id, PORT));
      await machine.pause(id, "clock", { memory: true });
      await Bun.sleep(3_000);
      await machine.resume({ ...request, id, checkpoint: "clock", memory: true });
      const after = Number(await ask(machine, id, PORT));
      expect(after).toBeGreaterThan(before);
      expect(after - before).toBeLessThan(3);
      await machine.removeCheckpoint("clock");
    });
  });

  test("it can be resumed where the machine's clock is behind the one it knew, as after a reboot", async () => {
    const { id } = await machine.create(request);
    await startPython(machine, id, service("began = time.monotonic()", "return time.monotonic() - began"));
    const before = Number(await ask(machine, id, PORT));
    await machine.pause(id, "behind", { memory: true });
    await machine.close();
    // The machine has been up for longer than this in any test run that got here.
    const set = ["unshare", "--time", "--fork", "--monotonic", "-20", "--boottime", "-20", "--"];
    const program = join(import.meta.dir, "resume-program.ts");
    const child = await attempt([...set, process.execPath, program, dataFolder, CACHE, id, "behind", String(PORT)], {
      timeoutMs: 60_000,
    });
    expect({ exitCode: child.exitCode, stderr: child.stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(Number(child.stdout)).toBeGreaterThanOrEqual(before);
    machine = await openMachine();
    await machine.adopt({ sandboxes: new Set(), checkpoints: new Set() });
  });
});

describe("a resume", () => {
  test("with memory is no reboot; without, it is: fresh processes, a new boot id, the same files", async () => {
    await withSandbox(async (id) => {
      await startPython(machine, id, service("open('/home/file','w').write('kept')", "return 'alive'"));
      await ask(machine, id, PORT);
      const boot = () => shell(data, id, "cat /proc/sys/kernel/random/boot_id");
      const first = await boot();
      expect(first).toMatch(/^[0-9a-f-]{36}$/);
      expect(first).not.toBe(readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim());
      await pauseAndResume(id);
      expect(await boot()).toBe(first);
      expect(await ask(machine, id, PORT)).toBe("alive");
      await pauseAndResume(id, { memory: false });
      expect(await boot()).not.toBe(first);
      expect(await shell(data, id, "cat /home/file")).toBe("kept");
      expect(await shell(data, id, "pgrep -c python3 || true")).toBe("0");
    });
  });

  test("is refused before anything is touched when the checkpoint does not fit; its disk alone still starts", async () => {
    const { id } = await machine.create(request);
    await shell(data, id, "echo kept > /home/file");
    await machine.pause(id, "misfit", { memory: true });
    const manifest = join(dataFolder, "disks/checkpoints/misfit/manifest.json");
    const written = readFileSync(manifest, "utf8");
    const resume = (memory: boolean) => machine.resume({ ...request, id, checkpoint: "misfit", memory });
    const changes: [Record<string, unknown>, RegExp][] = [
      [{ architecture: "pdp11" }, /written on pdp11/],
      [{ criu: "99.0" }, /CRIU 99\.0/],
      [{ kernel: "99.1.0" }, /Linux 99\.1\.0/],
      [{ cpuFeatures: ["warp"] }, /lacks warp/],
      [{ guestFolder: "/nowhere/guest" }, /\/nowhere\/guest/],
    ];
    for (const [change, reason] of changes) {
      const parsed = JSON.parse(written);
      writeFileSync(manifest, JSON.stringify({ ...parsed, memory: { ...parsed.memory, ...change } }));
      const refused = await resume(true).then(undefined, (fault: Fault) => fault);
      expect([change, refused?.status, String(refused)]).toEqual([change, 422, expect.stringMatching(reason)]);
      expect(refused?.message).toMatch(reason);
      expect(refused?.message).toContain("memory: false");
      expect(await settledCensus(dataFolder, NOTHING)).toEqual(NOTHING);
    }
    await resume(false);
    expect(await shell(data, id, "cat /home/file")).toBe("kept");
    await machine.destroy(id);
    writeFileSync(manifest, written);
    await resume(true);
    await machine.destroy(id);
    await machine.removeCheckpoint("misfit");
  });

  test("of a checkpoint that has decayed on disk is refused", async () => {
    const { id } = await machine.create(request);
    await machine.pause(id, "decay", { memory: true });
    const pages = join(dataFolder, "disks/checkpoints/decay/memory/pages-1.img");
    const bytes = readFileSync(pages);
    bytes[5000] = (bytes[5000] ?? 0) ^ 1;
    writeFileSync(pages, bytes);
    // Another server: this one has just written it.
    await machine.close();
    machine = await openMachine();
    const refused = machine.resume({ ...request, id, checkpoint: "decay", memory: true });
    await expect(refused).rejects.toMatchObject({ status: 422, message: expect.stringContaining("damaged on disk") });
    expect(await settledCensus(dataFolder, NOTHING)).toEqual(NOTHING);
    await machine.removeCheckpoint("decay");
  });
});

describe("connections to the outside", () => {
  test("are closed by a resume and in a copy, and go on in the original", async () => {
    const { id } = await machine.create(request);
    // From the machine to a service inside, as the edge does: it echoes what it gets and says when the connection broke.
    const echo = `
import socket, threading
ended = []
server = socket.socket(); server.bind(("0.0.0.0", 5678)); server.listen()
def serve(client):
    try:
        while True:
            line = client.recv(100)
            if not line: raise EOFError()
            client.sendall(line)
    except (OSError, EOFError) as error: ended.append(type(error).__name__)
def accept():
    while True: threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
threading.Thread(target=accept, daemon=True).start()`;
    await startPython(machine, id, service(echo, "return ended"));
    await ask(machine, id, PORT);
    const line = await Line.open(machine.endpoint(id)?.address ?? "", 5678);
    expect(await line.echo("one")).toBe("one");
    await machine.snapshot(id, "outside", { memory: true });
    expect(await line.echo("two")).toBe("two");
    const copy = await machine.create({ ...request, checkpoint: "outside" });
    let said = "";
    const broken = async (which: string) => {
      said = await ask(machine, which, PORT);
      return said.includes("ConnectionAbortedError");
    };
    await until(
      () => `the copy's connection breaks, but it says ${said}`,
      () => broken(copy.id),
    );
    expect(await broken(id)).toBe(false);
    expect(await line.echo("three")).toBe("three");
    await machine.pause(id, "outside-2", { memory: true });
    await machine.resume({ ...request, id, checkpoint: "outside-2", memory: true });
    await until(
      () => `the connection breaks, but it says ${said}`,
      () => broken(id),
    );
    line.close();
    await machine.destroy(id);
    await machine.destroy(copy.id);
    for (const name of ["outside", "outside-2"]) await machine.removeCheckpoint(name);
  });
});

describe("a copy", () => {
  test("begins with the memory and files of its original and goes its own way, as a machine of its own", async () => {
    await withSandbox(async (id) => {
      const counter = "count = [0]\nword = os.urandom(8).hex()";
      await startPython(machine, id, service(counter, "count[0] += 1\n    return f'{word} {count[0]}'"));
      const [word] = (await ask(machine, id, PORT)).split(" ");
      await shell(data, id, "echo original > /home/file");
      await machine.snapshot(id, "copies", { memory: true });
      expect(await ask(machine, id, PORT)).toBe(`${word} 2`);
      await shell(data, id, "echo changed > /home/file");

      const copies = await Promise.all([1, 2].map(() => machine.create({ ...request, checkpoint: "copies" })));
      for (const copy of copies) {
        expect(await ask(machine, copy.id, PORT)).toBe(`${word} 2`);
        expect(await shell(data, copy.id, "cat /home/file")).toBe("original");
      }
      await shell(data, copies[0]?.id ?? "", "echo first > /home/file; hostname first");
      expect(await shell(data, copies[1]?.id ?? "", "cat /home/file; hostname")).toBe(
        `original\n${copies[1]?.id}.e2b.local`,
      );
      expect(await shell(data, id, "cat /home/file; hostname")).toBe("changed\ne2b.local");
      const machineIds = await Promise.all(
        [id, ...copies.map((copy) => copy.id)].map((each) => shell(data, each, "cat /etc/machine-id")),
      );
      expect(new Set(machineIds).size).toBe(3);
      const cold = await machine
        .snapshot(id, "cold", { memory: false })
        .then(() => machine.create({ ...request, checkpoint: "cold" }));
      expect(machineIds).not.toContain(await shell(data, cold.id, "cat /etc/machine-id"));
      expect(await shell(data, cold.id, "cat /home/file")).toBe("changed");
      for (const each of [...copies, cold]) await machine.destroy(each.id);
      await machine.removeCheckpoint("copies");
      await machine.removeCheckpoint("cold");
    });
  });

  test("is as closed to the outside as was asked for, from its first packet on", async () => {
    const { id } = await machine.create({ ...request, internet: true });
    await machine.snapshot(id, "closed", { memory: true });
    const copy = await machine.create({ ...request, checkpoint: "closed", internet: false });
    expect(recordOf(data, copy.id).offline).toBe(true);
    const table = await attempt(["nft", "list", "set", "inet", machine.network.table, "offline"]);
    expect(table.stdout).toContain(machine.network.address(recordOf(data, copy.id).slot));
    expect(table.stdout).not.toContain(`${machine.network.address(recordOf(data, id).slot)} `);
    await machine.destroy(id);
    await machine.destroy(copy.id);
    await machine.removeCheckpoint("closed");
  });
});

describe("a pause that cannot be done", () => {
  test("names the process and the reason, and the sandbox runs on", async () => {
    await withSandbox(async (id) => {
      const traced =
        "p = os.fork()\nif p == 0:\n    libc.ptrace(0, 0, 0, 0); os.kill(os.getpid(), signal.SIGSTOP)\nos.waitpid(p, 0)";
      await startPython(machine, id, service(traced, "return 'alive'"));
      await ask(machine, id, PORT);
      const refused = machine.pause(id, "impossible", { memory: true });
      await expect(refused).rejects.toMatchObject({
        status: 422,
        message: expect.stringMatching(/process \d+ "python3": it is being traced/),
      });
      expect(await ask(machine, id, PORT)).toBe("alive");
      expect(await machine.checkpoints.list()).not.toContain("impossible");
      await machine.pause(id, "possible", { memory: false });
      await machine.resume({ ...request, id, checkpoint: "possible", memory: true });
      await machine.removeCheckpoint("possible");
    });
  });
});
