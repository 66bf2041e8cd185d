/** The environment that a program finds in a sandbox. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf, until } from "../../support/until.ts";

const server = sharedServer();
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
});

const shell = async (script: string, user?: string) =>
  (await sandbox.commands.run(script, user === undefined ? {} : { user })).stdout.trimEnd();

test("commands run as `user` in its home folder on a machine called e2b.local", async () => {
  expect(await shell("id")).toBe("uid=1000(user) gid=1000(user) groups=1000(user)");
  expect(await shell("echo $HOME $USER $LOGNAME $SHELL; pwd")).toBe("/home/user user user /bin/bash\n/home/user");
  expect(await shell("hostname; cat /etc/hostname; uname -n")).toBe("e2b.local\ne2b.local\ne2b.local");
  expect(await shell("getent passwd user")).toBe("user:x:1000:1000::/home/user:/bin/bash");
  expect(await shell("stat -c '%U:%G %a' /home/user")).toMatch(/^user:user 7\d\d$/);
});

test("sudo asks for no password, and root administers its sandbox", async () => {
  expect(await shell("sudo -n id -u")).toBe("0");
  expect(await shell("sudo -n sh -c 'echo x > /etc/by-root && cat /etc/by-root'")).toBe("x");
  expect(await shell("sudo -n useradd --create-home ada && sudo -n -u ada sh -c 'cd && pwd && whoami'")).toBe(
    "/home/ada\nada",
  );
});

test("a user added inside runs commands and owns files", async () => {
  await shell("sudo -n useradd --create-home bob");
  expect(await shell("whoami; echo $HOME", "bob")).toBe("bob\n/home/bob");
  await sandbox.files.write("of-bob", "x", { user: "bob" });
  expect(await shell("stat -c %U /home/bob/of-bob", "root")).toBe("bob");
});

const TOOLS =
  "bash sh sudo git curl wget gcc g++ make python python3 pip node npm npx ps ip ss tput jq less ping socat ssh zip unzip nano xz tar gzip file findmnt mount pgrep awk sed grep";

test("the usual tools are installed", async () => {
  const missing = await shell(`for tool in ${TOOLS}; do command -v $tool > /dev/null || echo $tool; done`);
  expect(missing).toBe("");
  const versions = await shell(
    "git --version && curl --version && python --version && python3 --version && pip --version && node --version && npm --version && jq --version",
  );
  expect(versions).toContain("git version");
});

test("node, python and git do real work", async () => {
  expect(await shell(`node -e 'console.log([1, 2, 3].map((n) => n * 2).join())'`)).toBe("2,4,6");
  expect(await shell(`python -c 'import json, ssl, sqlite3, ctypes; print(json.dumps([1, 2]))'`)).toBe("[1, 2]");
  expect(
    await shell(
      "git init -q repo && cd repo && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && git log --format=%s",
    ),
  ).toBe("first");
});

test("C compiles, also as a module of Python", async () => {
  const code =
    '#include <Python.h>\nstatic struct PyModuleDef def = { PyModuleDef_HEAD_INIT, "built" };\nPyMODINIT_FUNC PyInit_built(void) { return PyModule_Create(&def); }\n';
  await sandbox.files.write("built.c", code);
  const compile = "gcc -shared -fPIC $(python3-config --includes) built.c -o built.so";
  expect(await shell(`${compile} && python -c 'import built; print(built.__name__)'`)).toBe("built");
});

test("a virtual environment works without internet access", async () => {
  const script = "python -m venv environment && . environment/bin/activate && command -v python pip && pip --version";
  const made = await shell(script);
  expect(made).toStartWith("/home/user/environment/bin/python\n/home/user/environment/bin/pip\n");
  expect(made).toContain("pip ");
});

test("/code, /usr/local and /tmp can be written by the user, the system cannot", async () => {
  for (const folder of ["/code", "/usr/local", "/usr/local/bin", "/usr/local/lib", "/tmp", "/var/tmp", "/dev/shm"]) {
    expect(await shell(`echo x > ${folder}/mine && cat ${folder}/mine && rm ${folder}/mine`)).toBe("x");
  }
  for (const folder of ["/", "/etc", "/usr", "/usr/bin", "/root", "/.sandlot"]) {
    await refusalOf(sandbox.commands.run(`touch ${folder}/mine`));
  }
  await refusalOf(sandbox.commands.run("touch /.sandlot/mine", { user: "root" }));
});

test("a program put into /usr/local/bin is found", async () => {
  await sandbox.files.write("/usr/local/bin/greet", "#!/bin/sh\necho hello from greet\n");
  expect(await shell("chmod +x /usr/local/bin/greet && greet")).toBe("hello from greet");
});

test("the disk has the size of the template, and most of it is free", async () => {
  const [size = 0, free = 0] = (await shell("df --output=size,avail -B1M / | tail -1")).trim().split(/\s+/).map(Number);
  expect(size).toBeGreaterThan(10_240 * 0.95);
  expect(size).toBeLessThanOrEqual(10_240);
  expect(free).toBeGreaterThan(10_240 * 0.9);
});

test("processors and memory are those of the template", async () => {
  expect(await shell("nproc")).toBe("2");
  const memory = "cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes";
  expect(await shell(memory)).toBe(String(1024 * 1024 * 1024));
  const version2 = "tr ' ' '\\n' < /sys/fs/cgroup/cpu.max 2>/dev/null";
  const version1 = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us";
  expect(await shell(`[ -e /sys/fs/cgroup/cpu.max ] && ${version2} || ${version1}`)).toBe("200000\n100000");
});

/** In MiB, by its names. */
async function meminfo(): Promise<Record<string, number>> {
  const lines = (await shell("cat /proc/meminfo")).split("\n");
  return Object.fromEntries(lines.map((line) => [line.split(":")[0], Number(/\d+/.exec(line)?.[0]) / 1024]));
}

// Guards against the machine's own /proc/meminfo, and a file that the guest does not write: nothing is ever used.
test("free and /proc/meminfo show the sandbox's memory and its use", async () => {
  expect((await shell("free -m | awk '/^Mem/ { print $2 } /^Swap/ { print $2 }'")).split("\n")).toEqual(["1024", "0"]);
  const before = await meminfo();
  expect(before).toMatchObject({ MemTotal: 1024, SwapTotal: 0 });
  const taken = await sandbox.commands.run("exec python3 -c 'x = bytearray(200 << 20); print(1); input()'", {
    background: true,
    stdin: true,
  });
  const memory = async (what: string, isSo: (now: Record<string, number>) => boolean) =>
    until(what, async () => isSo(await meminfo()));
  await memory("200 MiB less are to be had", (now) => Number(before.MemAvailable) - Number(now.MemAvailable) > 190);
  expect((await meminfo()).MemAvailable).toBeGreaterThan(500);
  await shell("head -c 100M /dev/zero > /dev/shm/full");
  await memory("files in memory are shared", (now) => Number(now.Shmem) > 95);
  await shell("rm /dev/shm/full");
  await taken.kill();
  await memory("all is free again", (now) => Number(before.MemAvailable) - Number(now.MemAvailable) < 50);
});

test("only root can write /proc/meminfo, and a sandbox survives a damaged one", async () => {
  expect((await refusalOf(sandbox.commands.run("echo x > /proc/meminfo"))).message).toContain("exit status 1");
  const own = await Sandbox.create(server().options);
  await own.commands.run("echo x > /proc/meminfo; truncate -s 1G /proc/meminfo", { user: "root" });
  expect((await own.commands.run("echo goes on")).stdout).toBe("goes on\n");
  await until("it is true again", async () => {
    const { stdout } = await own.commands.run("head -c 10 /proc/meminfo; stat -c %s /proc/meminfo");
    return /^MemTotal: \d{3}\n$/.test(stdout);
  });
  expect(await own.kill()).toBe(true);
});

// Guards against a guest that is not put first (15), and niceness set after the start instead of kept (-15 now and
// then).
test("processes have niceness 0 and the guest runs ahead of them, also after a restart of the guest", async () => {
  const own = await Sandbox.create(server().options);
  const look = async () => {
    for (let times = 0; times < 3; times++) {
      const [user, root] = await Promise.all([own.commands.run("nice"), own.commands.run("nice", { user: "root" })]);
      expect([user.stdout, root.stdout]).toEqual(["0\n", "0\n"]);
    }
    return (await own.commands.run("ps -o ni= -p $PPID", { user: "root" })).stdout.trim();
  };
  expect(await look()).toBe("-15");
  await own.commands.run("kill -9 $PPID", { user: "root" }).catch(() => undefined);
  await until("the guest is back", () => own.isRunning());
  expect(await look()).toBe("-15");
  // No process inside can take the guest's priority, or a higher one.
  const asRoot = async (script: string) => (await own.commands.run(script, { user: "root" })).stdout;
  expect(await asRoot("nice -n -1 nice 2>/dev/null")).toBe("0\n");
  expect(await asRoot("chrt --fifo 1 true 2>&1 || echo refused")).toContain("refused");
  expect(await own.kill()).toBe(true);
});

// Guards against a restored guest that is not put first (15), and a meminfo file that is not made again (no resume at
// all).
test("/proc/meminfo and niceness are the same after a pause, also for programs from before it", async () => {
  const paused = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  const look = "head -1 /proc/meminfo; nice";
  await paused.commands.run(`while read -r _; do ${look}; done > looked`, {
    background: true,
    stdin: true,
    timeoutMs: 0,
  });
  await until("it waits for its word", () => paused.files.exists("looked"));
  await paused.pause();
  const again = await Sandbox.connect(paused.sandboxId, server().options);
  const [before] = await again.commands.list();
  await again.commands.sendStdin(before?.pid ?? 0, "\n");
  const reported = /^MemTotal: +1048576 kB\n0\n$/;
  await until("the program from before has looked", async () => reported.test(await again.files.read("looked")));
  expect((await again.commands.run(look)).stdout).toMatch(reported);
  expect((await again.commands.run("ps -o ni= -p $PPID", { user: "root" })).stdout.trim()).toBe("-15");
  const used = await again.commands.run("free -m | awk '/^Mem/ { print $3 }'");
  expect(Number(used.stdout)).toBeGreaterThan(0);
  expect(await again.kill()).toBe(true);
});

test("a program that exceeds the memory is killed, and the sandbox runs on", async () => {
  const greedy = await Sandbox.create(server().options);
  const error = await refusalOf(
    greedy.commands.run("python3 -c 'block = bytearray(2 * 1024**3); block[::4096] = b\"x\" * (len(block) // 4096)'"),
  );
  expect(error).toMatchObject({ exitCode: expect.any(Number) });
  expect((await greedy.commands.run("echo alive")).stdout).toBe("alive\n");
  expect(await greedy.kill()).toBe(true);
});

test("environment variables and files name the sandbox and its template", async () => {
  const { templateId } = await sandbox.getInfo();
  expect(await shell('echo "$E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID"')).toBe(
    `true ${sandbox.sandboxId} ${templateId}`,
  );
  const files = "cat /run/e2b/.E2B_SANDBOX; echo; cat /run/e2b/.E2B_SANDBOX_ID; echo; cat /run/e2b/.E2B_TEMPLATE_ID";
  expect(await shell(files)).toBe(`true\n${sandbox.sandboxId}\n${templateId}`);
  expect(await shell("cat /.e2b")).toContain(`TEMPLATE_ID=${templateId}\n`);
});

test("no secret of the server is in the environment of a process", async () => {
  const variables = (await shell("env | cut -d= -f1 | sort")).split("\n");
  expect(variables.filter((name) => /SANDLOT|SECRET|TOKEN|KEY/.test(name))).toEqual([]);
  expect(variables.filter((name) => /^(BUN_|MIMALLOC_|GLIBC_|LD_)/.test(name))).toEqual([]);
});

// Guards against default settings of the guest's C library on arm64: two pages of 2 MiB since the first command.
test("the guest uses no huge pages", async () => {
  const flags = await shell("grep '^VmFlags' /proc/$(pgrep -x guest)/smaps", "root");
  expect(flags.split("\n").length).toBeGreaterThan(10);
  expect(flags).not.toMatch(/ hg\b/);
});

test("a process sees only processes of its sandbox, and a dead one leaves no zombie", async () => {
  const processes = await shell("ps -eo args --no-headers");
  expect(processes).not.toContain("main.ts");
  expect(processes.split("\n").length).toBeLessThan(30);
  await shell("(sleep 0 & exec sleep 0.1) > /dev/null 2>&1; true");
  const zombies = () => shell("ps -eo stat --no-headers | grep -c ^Z || true");
  await until("no zombie is left", async () => (await zombies()) === "0");
});
