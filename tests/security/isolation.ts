/** What code inside a sandbox, root included, cannot do: every attack from inside. */
import { beforeAll, describe, expect, test } from "bun:test";
import { CommandExitError, Sandbox } from "e2b";
import type { RuntimeName } from "../../src/contract/runtime-name.ts";
import type { TestServer } from "../support/server.ts";
import { IS_WRITING, type Life, record, recorded } from "./attacks/attack-table.ts";
import { ATTACKS } from "./attacks/attacks.ts";
import { attack, type Found, openIn } from "./attacks/attempts.ts";

const FROM_INSIDE = ATTACKS.filter(({ inside }) => inside === true);

interface Attacked {
  runtime: RuntimeName;
  /** How the sandbox came to be. */
  life: Life;
  server: () => TestServer;
  sandbox: () => Sandbox;
}

/** The isolation tests except the network's, for a sandbox that is already running. */
export function testIsolation({ runtime, life, server, sandbox }: Attacked): void {
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

  describe("attack", () => {
    let found: Found;
    beforeAll(async () => {
      const neighbour = await Sandbox.create(server().options);
      found = await attack(sandbox(), [neighbour.sandboxId]);
      await neighbour.kill();
      if (IS_WRITING) record(runtime, life, openIn(found));
    });

    test.each(FROM_INSIDE.map(({ number, name }) => ({ number, name })))("$number: $name", ({ number }) => {
      const attempts = found.found[number] ?? {};
      expect(Object.keys(attempts)).not.toBeEmpty();
      const open = Object.entries(attempts).filter(([, outcome]) => outcome.startsWith("open"));
      const expected = recorded()[runtime]?.[life]?.[number] ?? [];
      expect(open.filter(([attempt]) => !expected.includes(attempt))).toEqual([]);
      expect(open.map(([attempt]) => attempt)).toEqual(expected);
    });

    test("every attempt of the program is in the list", () => {
      expect(Object.keys(found.found).map(Number)).toEqual(FROM_INSIDE.map(({ number }) => number));
    });
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

  test("the guest's folder is read-only and its secret is not in any process of the user", async () => {
    expect((await asRoot("touch /.sandlot/x")).text).toContain("Read-only file system");
    expect((await asRoot("mount -o remount,rw /.sandlot")).exitCode).not.toBe(0);
    const { stdout } = await sandbox().commands.run("env; cat /proc/self/environ | tr '\\0' '\\n'");
    expect(stdout).not.toContain("SANDLOT_");
    // Not every kernel hides the environment of root's processes; it only holds the sandbox's size.
    const first = (await sandbox().commands.run("cat /proc/1/environ | tr '\\0' '\\n' || true")).stdout;
    expect(first.match(/SANDLOT_(?!CPU_COUNT|MEMORY_(?:MB|FILE)|COPY)\w*/g)).toBeNull();
  });

  test("a working directory given by descriptor does not lead out of the sandbox", async () => {
    // Whichever descriptors the guest holds open, they lead only to the sandbox's own files.
    const numbers = Array.from({ length: 24 }, (_, number) => number);
    const outcomes = await Promise.all(
      numbers.map((number) =>
        sandbox()
          .commands.run("cat ../../../../../../etc/hostname", { user: "root", cwd: `/proc/self/fd/${number}` })
          .then(({ stdout }) => stdout)
          .catch(() => "refused"),
      ),
    );
    expect(outcomes.filter((outcome) => outcome !== "refused" && !outcome.endsWith("e2b.local\n"))).toEqual([]);
  });

  // With runsc no process changes its user.
  test.if(runtime === "crun")("set-uid programs work inside, such as sudo", async () => {
    expect((await sandbox().commands.run("sudo id -u")).stdout).toBe("0\n");
    expect((await sandbox().commands.run("grep NoNewPrivs /proc/self/status")).stdout).toContain("0");
  });

  test("symlinks resolve inside the sandbox for every reader", async () => {
    await asRoot("ln -sf /etc/shadow /tmp/link && ln -sf /proc/1/root/etc/hostname /tmp/through-init");
    const throughInit = sandbox().files.read("/tmp/through-init", { user: "root" });
    expect(await throughInit.catch(() => "refused")).toMatch(/e2b\.local\n$|^refused$/);
    const hostShadow = await Bun.file("/etc/shadow").text();
    expect(await sandbox().files.read("/tmp/link", { user: "root" })).not.toBe(hostShadow);
  });
}
