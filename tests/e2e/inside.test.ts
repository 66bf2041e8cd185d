/** What a program finds when it wakes up in a sandbox. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { serverOfFile } from "./server-of-file.ts";
import { refusalOf } from "./until.ts";

const server = serverOfFile("inside");
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
});

const shell = async (script: string, user?: string) =>
  (await sandbox.commands.run(script, user === undefined ? {} : { user })).stdout.trimEnd();

test("it is the user `user` in its home on a machine called e2b.local", async () => {
  expect(await shell("id")).toBe("uid=1000(user) gid=1000(user) groups=1000(user)");
  expect(await shell("echo $HOME $USER $LOGNAME $SHELL; pwd")).toBe("/home/user user user /bin/bash\n/home/user");
  expect(await shell("hostname; cat /etc/hostname; uname -n")).toBe("e2b.local\ne2b.local\ne2b.local");
  expect(await shell("getent passwd user")).toBe("user:x:1000:1000::/home/user:/bin/bash");
  expect(await shell("stat -c '%U:%G %a' /home/user")).toMatch(/^user:user 7\d\d$/);
});

test("sudo asks for no password, and root may do what root does inside", async () => {
  expect(await shell("sudo -n id -u")).toBe("0");
  expect(await shell("sudo -n sh -c 'echo x > /etc/by-root && cat /etc/by-root'")).toBe("x");
  expect(await shell("sudo -n useradd --create-home ada && sudo -n -u ada sh -c 'cd && pwd && whoami'")).toBe(
    "/home/ada\nada",
  );
});

test("a user that was made inside runs commands and owns files", async () => {
  await shell("sudo -n useradd --create-home bob");
  expect(await shell("whoami; echo $HOME", "bob")).toBe("bob\n/home/bob");
  await sandbox.files.write("of-bob", "x", { user: "bob" });
  expect(await shell("stat -c %U /home/bob/of-bob", "root")).toBe("bob");
});

const TOOLS = [
  ...[
    "bash",
    "sh",
    "sudo",
    "git",
    "curl",
    "python",
    "python3",
    "pip",
    "node",
    "npm",
    "npx",
    "ps",
    "ip",
    "ss",
    "tput",
    "jq",
  ],
  ...[
    "less",
    "ping",
    "socat",
    "ssh",
    "unzip",
    "xz",
    "tar",
    "gzip",
    "file",
    "findmnt",
    "mount",
    "pgrep",
    "awk",
    "sed",
    "grep",
  ],
];

test("the usual tools are there and run", async () => {
  const missing = await shell(`for tool in ${TOOLS.join(" ")}; do command -v $tool > /dev/null || echo $tool; done`);
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

test("a virtual environment is made without the internet, and works", async () => {
  const script =
    "python -m venv environment && . environment/bin/activate && command -v python pip && pip list 2>/dev/null";
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

test("a program that takes more memory than there is dies, and the sandbox lives on", async () => {
  const greedy = await Sandbox.create(server().options);
  const error = await refusalOf(
    greedy.commands.run("python3 -c 'block = bytearray(2 * 1024**3); block[::4096] = b\"x\" * (len(block) // 4096)'"),
  );
  expect(error).toMatchObject({ exitCode: expect.any(Number) });
  expect((await greedy.commands.run("echo alive")).stdout).toBe("alive\n");
  expect(await greedy.kill()).toBe(true);
});

test("the sandbox tells a program where it is", async () => {
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
});

test("only processes of the sandbox are seen, and a dead one leaves no zombie", async () => {
  const processes = await shell("ps -eo args --no-headers");
  expect(processes).not.toContain("main.ts");
  expect(processes.split("\n").length).toBeLessThan(30);
  await shell("(sleep 0 & exec sleep 0.1) > /dev/null 2>&1; true");
  expect(await shell("ps -eo stat --no-headers | grep -c ^Z || true")).toBe("0");
});
