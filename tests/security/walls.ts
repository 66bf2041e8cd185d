/** What code inside a sandbox, root included, cannot do. Each line is an attack that worked somewhere. */
import { describe, expect, test } from "bun:test";
import { CommandExitError, Sandbox } from "e2b";
import type { TestServer } from "../support/server.ts";

/** Runs a system call by number through Python and prints its errno, or "done". */
function systemCall(number: Record<string, number>, ...args: (number | string)[]): string {
  const call = number[process.arch];
  const list = [call, ...args]
    .map((arg) => (typeof arg === "string" ? `b"${arg}"` : `ctypes.c_long(${arg})`))
    .join(", ");
  return [
    "python3 -c '",
    "import ctypes",
    "libc = ctypes.CDLL(None, use_errno=True)",
    `result = libc.syscall(${list.replaceAll("'", "")})`,
    'print("done" if result >= 0 else ctypes.get_errno())',
    "'",
  ].join("\n");
}

/** The tests of all walls but the network's, of a sandbox that runs when they do. */
export function holdWalls(server: () => TestServer, sandbox: () => Sandbox): void {
  /** Exit code, output and errors of a command run as root inside. */
  async function asRoot(command: string): Promise<{ exitCode: number; text: string }> {
    try {
      const { exitCode, stdout, stderr } = await sandbox().commands.run(command, { user: "root", timeoutMs: 30_000 });
      return { exitCode, text: stdout + stderr };
    } catch (error) {
      if (!(error instanceof CommandExitError)) throw error;
      return { exitCode: error.exitCode, text: error.stdout + error.stderr };
    }
  }

  describe("the kernel's surface", () => {
    const EPERM = "1";
    const ENOSYS = "38";
    test.each([
      ["io_uring_setup", { x64: 425, arm64: 425 }, [8, 0], ENOSYS],
      ["clone3", { x64: 435, arm64: 435 }, [0, 0], ENOSYS],
      ["landlock_create_ruleset", { x64: 444, arm64: 444 }, [0, 0, 1], ENOSYS],
      ["pkey_alloc", { x64: 330, arm64: 289 }, [0, 0], ENOSYS],
      ["bpf", { x64: 321, arm64: 280 }, [0, 0, 0], EPERM],
      ["perf_event_open", { x64: 298, arm64: 241 }, [0, 0, -1, -1, 0], EPERM],
      ["userfaultfd", { x64: 323, arm64: 282 }, [0], EPERM],
      ["add_key", { x64: 248, arm64: 217 }, ["user", "k", "v", 1, -3], EPERM],
      ["keyctl", { x64: 250, arm64: 219 }, [0, -3, 0], EPERM],
      ["mount", { x64: 165, arm64: 40 }, ["none", "/mnt", "tmpfs", 0, 0], EPERM],
      ["fsopen", { x64: 430, arm64: 430 }, ["tmpfs", 0], EPERM],
      ["open_tree", { x64: 428, arm64: 428 }, [-100, "/", 1], EPERM],
      ["unshare a user namespace", { x64: 272, arm64: 97 }, [0x10000000], EPERM],
      ["clone a user namespace", { x64: 56, arm64: 220 }, [0x10000000 | 17, 0, 0, 0, 0], EPERM],
      ["setns", { x64: 308, arm64: 268 }, [0, 0], EPERM],
      ["open_by_handle_at", { x64: 304, arm64: 265 }, [0, 0, 0], EPERM],
      ["init_module", { x64: 175, arm64: 105 }, [0, 0, 0], EPERM],
      ["kexec_load", { x64: 246, arm64: 104 }, [0, 0, 0, 0], EPERM],
      ["process_vm_readv", { x64: 310, arm64: 270 }, [1, 0, 0, 0, 0, 0], EPERM],
      ["swapon", { x64: 167, arm64: 224 }, ["/x", 0], EPERM],
      ["reboot", { x64: 169, arm64: 142 }, [0xfee1dead, 672274793, 0, 0], EPERM],
      ["quotactl", { x64: 179, arm64: 60 }, [0, 0, 0, 0], EPERM],
      ["syslog", { x64: 103, arm64: 116 }, [3, 0, 0], EPERM],
      ["acct", { x64: 163, arm64: 89 }, [0], EPERM],
      ["settimeofday", { x64: 164, arm64: 170 }, [0, 0], EPERM],
      ["personality", { x64: 135, arm64: 92 }, [0x0040000], EPERM],
    ] as [string, Record<string, number>, (number | string)[], string][])(
      "%s is closed",
      async (_, number, args, errno) => {
        expect((await asRoot(systemCall(number, ...args))).text.trim()).toBe(errno);
      },
    );

    test.each([
      ["AF_ALG", 38, 0],
      ["AF_RXRPC", 33, 0],
      ["AF_KEY", 15, 0],
      ["AF_VSOCK", 40, 0],
      ["AF_PACKET", 17, 0],
      ["AF_TIPC", 30, 0],
      ["AF_CAN", 29, 0],
      ["AF_BLUETOOTH", 31, 0],
      ["NETLINK_XFRM", 16, 6],
      ["NETLINK_AUDIT", 16, 9],
      ["NETLINK_NETFILTER", 16, 12],
      ["raw IPv4", 2, 1],
    ])("a socket of %s cannot be made", async (_, family, protocol) => {
      const script = `import socket; socket.socket(${family}, socket.SOCK_RAW, ${protocol})`;
      const { exitCode, text } = await asRoot(`python3 -c '${script}'`);
      expect(exitCode).toBe(1);
      expect(text).toMatch(/not supported|not permitted/);
    });

    test("pairs of sockets can be made of no family but Unix", async () => {
      const pairs = [
        "import ctypes",
        "libc = ctypes.CDLL(None, use_errno=True)",
        "families = [each for each in range(64) if each != 1]",
        "# The kernel looks at the lower half of the number, a filter at the whole.",
        "for family in families + [each | 1 << 32 for each in families]:",
        "    for kind in range(1, 7):",
        `        made = libc.syscall(${process.arch === "arm64" ? 199 : 53}, ctypes.c_long(family), kind, 0, (ctypes.c_int * 2)())`,
        "        if made == 0 or ctypes.get_errno() != 97: print(family, kind, made, ctypes.get_errno())",
      ].join("\n");
      await sandbox().files.write("/tmp/pairs.py", pairs);
      expect(await asRoot("python3 /tmp/pairs.py")).toEqual({ exitCode: 0, text: "" });
    });

    test.each(["SOCK_STREAM", "SOCK_DGRAM", "SOCK_SEQPACKET"])("a Unix pair of %s works", async (kind) => {
      const talk = [
        "import socket",
        `a, b = socket.socketpair(socket.AF_UNIX, socket.${kind})`,
        'a.send(b"there"); print(b.recv(9)); b.send(b"back"); print(a.recv(9))',
      ].join("\n");
      const { stdout } = await sandbox().commands.run(`python3 -c '${talk}'`);
      expect(stdout).toBe("b'there'\nb'back'\n");
    });

    test("capabilities are the short list, and none can be had back", async () => {
      const { text } = await asRoot("grep CapBnd /proc/self/status");
      const held = BigInt(`0x${text.trim().split(/\s+/)[1]}`);
      const names: Record<string, bigint> = {
        NET_ADMIN: 12n,
        NET_RAW: 13n,
        SYS_MODULE: 16n,
        SYS_RAWIO: 17n,
        SYS_PTRACE: 19n,
      };
      const more: Record<string, bigint> = {
        DAC_READ_SEARCH: 2n,
        SYS_ADMIN: 21n,
        SYS_TIME: 25n,
        MKNOD: 27n,
        SYSLOG: 34n,
        BPF: 39n,
      };
      for (const [name, bit] of Object.entries({ ...names, ...more })) {
        expect(`${name} ${(held >> bit) & 1n}`).toBe(`${name} 0`);
      }
    });
  });

  describe("what a sandbox sees", () => {
    test("only its own processes", async () => {
      const { text } = await asRoot("ps -e -o pid= -o comm=");
      expect(text.trim().split("\n").length).toBeLessThan(12);
      expect(text).not.toContain("bun");
      expect((await asRoot("cat /proc/1/comm")).text.trim()).toBe("init");
    });

    test.each(["/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/timer_list", "/proc/modules", "/proc/interrupts"])(
      "%s is empty or closed",
      async (path) => {
        const { text } = await asRoot(`test -e ${path} && head -c 100 ${path} | wc -c || echo 0`);
        expect(text.trim().split("\n").at(-1)).toBe("0");
      },
    );

    test.each(["/sys/kernel", "/sys/firmware", "/sys/module", "/sys/block", "/proc/scsi", "/proc/pressure"])(
      "%s is hidden",
      async (path) => {
        expect((await asRoot(`ls -A ${path} 2>/dev/null | wc -l`)).text.trim()).toBe("0");
      },
    );

    test("no pressure trigger can be registered: thousands of them keep a sandbox from being ended", async () => {
      const register = [
        "import glob, os",
        'for path in glob.glob("/proc/pressure/*") + glob.glob("/sys/fs/cgroup/**/*.pressure", recursive=True):',
        '    try: os.write(os.open(path, os.O_RDWR), b"some 150000 2000000\\0")',
        "    except OSError: continue",
        '    print("registered at", path)',
      ].join("\n");
      await sandbox().files.write("/tmp/register.py", register);
      expect(await asRoot("python3 /tmp/register.py")).toEqual({ exitCode: 0, text: "" });
    });

    test.each([
      "/proc/sysrq-trigger",
      "/proc/sys/kernel/core_pattern",
      "/proc/sys/kernel/modprobe",
      "/proc/sys/vm/overcommit_memory",
      "/proc/irq/default_smp_affinity",
      "/sys/fs/cgroup/memory/memory.limit_in_bytes",
      "/sys/fs/cgroup/memory.max",
      "/sys/fs/cgroup/memory/release_agent",
    ])("%s cannot be written", async (path) => {
      const { text } = await asRoot(`test -e ${path} || exit 0; echo 1 > ${path} && echo WRITTEN`);
      expect(text).not.toContain("WRITTEN");
    });

    test("nothing of its neighbours: their ids stand nowhere in /proc and /sys", async () => {
      const neighbour = await Sandbox.create(server().options);
      const hunt = [
        "import os, sys",
        "wanted, looked = sys.argv[1].encode(), 0",
        'for top in ["/sys"] + ["/proc/" + name for name in os.listdir("/proc") if not name.isdigit() and "self" not in name]:',
        "    files = [top] if os.path.isfile(top) else [os.path.join(at, name) for at, _, names in os.walk(top) for name in names]",
        "    for path in files:",
        '        if wanted in path.encode(): print("named in", path)',
        "    for path in files:",
        "        try: content = os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 1 << 20)",
        "        except OSError: continue",
        "        looked += 1",
        '        if wanted in content: print("found in", path)',
        'print("looked" if looked > 100 else looked)',
      ].join("\n");
      await sandbox().files.write("/tmp/hunt.py", hunt);
      expect((await asRoot(`python3 /tmp/hunt.py ${neighbour.sandboxId}`)).text.trim()).toBe("looked");
      expect((await asRoot("ls /sys/class/block /sys/dev /sys/devices/virtual 2>/dev/null | wc -l")).text.trim()).toBe(
        "0",
      );
      await neighbour.kill();
    });

    test("no device but the harmless ones, and none can be made", async () => {
      const { text } = await asRoot(
        'for f in /dev/*; do if [ ! -L "$f" ] && { [ -b "$f" ] || [ -c "$f" ]; }; then echo "$f"; fi; done',
      );
      const found = text.trim().split("\n");
      expect(found).toEqual(["/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"]);
      expect((await asRoot("mknod /tmp/disk b 254 0")).exitCode).not.toBe(0);
    });

    test("the guest's folder is read-only and its secret is not in any process of the user", async () => {
      expect((await asRoot("touch /.sandlot/x")).text).toContain("Read-only file system");
      expect((await asRoot("mount -o remount,rw /.sandlot")).exitCode).not.toBe(0);
      const { stdout } = await sandbox().commands.run("env; cat /proc/self/environ | tr '\\0' '\\n'");
      expect(stdout).not.toContain("SANDLOT_");
      expect((await sandbox().commands.run("cat /proc/1/environ 2>&1 || true")).stdout).toContain("Permission denied");
    });

    test("root inside is nobody outside: files belong to the shifted range", async () => {
      expect((await asRoot("cat /proc/self/uid_map")).text.trim().split(/\s+/)).toEqual(["0", "1900000000", "65536"]);
    });
  });

  test("set-uid programs work inside, so sudo does", async () => {
    expect((await sandbox().commands.run("sudo id -u")).stdout).toBe("0\n");
    expect((await sandbox().commands.run("grep NoNewPrivs /proc/self/status")).stdout).toContain("0");
  });

  test("symlinks lead to the sandbox's own files, whoever reads them", async () => {
    await asRoot("ln -sf /etc/shadow /tmp/link && ln -sf /proc/1/root/etc/hostname /tmp/through-init");
    expect(await sandbox().files.read("/tmp/through-init")).toEndWith("e2b.local\n");
    const hostShadow = await Bun.file("/etc/shadow").text();
    expect(await sandbox().files.read("/tmp/link", { user: "root" })).not.toBe(hostShadow);
  });
}
