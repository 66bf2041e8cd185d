/**
 * The programs that a template build runs inside a sandbox to make any image fit: on an empty root, on roots like those
 * of Alpine and of a distroless image, and in a real sandbox of `base`.
 */
import { describe, expect, test } from "bun:test";
import { lstatSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { guestProgram, type ProvisionRequest } from "../../../src/contract/runtime/guest-programs.ts";
import { GuestCommands } from "../../../src/sandbox/guest-link/guest-commands.ts";
import { shell } from "../../support/inside.ts";
import { MachineOfFile } from "../../support/machine-of-file.ts";
import { ForeignRoot } from "../../support/programs/foreign-root.ts";

const here = new MachineOfFile("guest-programs");

const REQUEST: ProvisionRequest = {
  user: "user",
  hostname: "e2b.local",
  address: "198.18.0.2",
  nameserver: "198.18.0.1",
  build: { templateId: "template1", buildId: "build1" },
};
const QUIET = { exitCode: 0, stderr: "" };
const NO_SUDO =
  "there is no sudo in this image, so user cannot become root by it; commands can be run as root instead\n";

function stat(root: ForeignRoot, path: string) {
  const { uid, gid, mode } = lstatSync(join(root.path, path));
  return { uid, gid, mode: (mode & 0o7777).toString(8) };
}

/** Everything below the root as comparable text, without mounts. */
function wholeTree(root: ForeignRoot, below = ""): string[] {
  return readdirSync(join(root.path, below), { withFileTypes: true }).flatMap((entry) => {
    const path = join(below, entry.name);
    if (path === "proc" || path === ".sandlot") return [];
    const { mode, uid, gid } = lstatSync(join(root.path, path));
    const text = entry.isFile() && !path.startsWith("bin/") ? readFileSync(join(root.path, path), "utf8") : "";
    return [`${path} ${mode} ${uid}:${gid} ${text}`, ...(entry.isDirectory() ? wholeTree(root, path) : [])];
  });
}

describe("a root with nothing in it", () => {
  test("gets all promised files and accounts, and a message that shell and sudo are missing", async () => {
    using root = new ForeignRoot();
    expect(await root.run("provision", REQUEST)).toMatchObject({ ...QUIET, stdout: NO_SUDO });
    expect(root.read("etc/passwd")).toBe(
      "root:x:0:0:root:/root:/sbin/nologin\nuser::1000:1000::/home/user:/sbin/nologin\n",
    );
    expect(root.read("etc/group")).toBe("root:x:0:\nuser::1000:\n");
    expect(stat(root, "home/user")).toEqual({ uid: 1000, gid: 1000, mode: "755" });
    expect(stat(root, "tmp").mode).toBe("1777");
    expect(stat(root, "code").mode).toBe("777");
    expect(stat(root, "usr/local").mode).toBe("777");
    expect(root.read("etc/resolv.conf")).toBe("nameserver 198.18.0.1\n");
    expect(root.read("etc/hosts")).toContain("198.18.0.2 e2b.local\n");
    expect(root.read("etc/hostname")).toBe("e2b.local\n");
    expect(root.read("etc/machine-id")).toBe("");
    expect(root.read(".e2b")).toBe("ENV_ID=template1\nTEMPLATE_ID=template1\nBUILD_ID=build1\n");
    // There is no shell that would read it.
    expect(root.has("etc/profile")).toBe(false);
    expect(readdirSync(join(root.path, "etc")).filter((name) => /lock|new|\d/.test(name))).toEqual([]);

    const once = wholeTree(root);
    expect(await root.run("provision", REQUEST)).toMatchObject({ ...QUIET, stdout: NO_SUDO });
    expect(wholeTree(root)).toEqual(once);
  });

  test("unpacks archives", async () => {
    using root = new ForeignRoot({ "archive.tar": "" });
    await Bun.$`tar -C ${import.meta.dir} -czf ${join(root.path, "archive.tar")} guest-programs.test.ts`.quiet();
    const request = { archive: "/archive.tar", source: "guest-programs.test.ts", target: "/app/", workdir: "/" };
    const copied = await root.run("unpack", { ...request, user: "root", owner: "1000", mode: "0600" });
    expect(copied).toMatchObject({ ...QUIET, stdout: "" });
    expect(root.read("app/guest-programs.test.ts")).toBe(readFileSync(import.meta.path, "utf8"));
    expect(stat(root, "app/guest-programs.test.ts")).toEqual({ uid: 1000, gid: 1000, mode: "600" });
    expect(root.has("archive.tar")).toBe(false);
  });

  test("Bun's configuration files in the image are not read", async () => {
    using root = new ForeignRoot({ ".env": "LD_LIBRARY_PATH=/none\n", "bunfig.toml": 'preload = ["/evil.ts"]\n' });
    root.write("evil.ts", 'require("node:fs").writeFileSync("/evil-was-here", "");');
    expect(await root.run("provision", REQUEST)).toMatchObject(QUIET);
    expect(root.has("evil-was-here")).toBe(false);
  });
});

describe("a root like a distroless image's", () => {
  test("keeps its accounts, skips taken ids, and gets a file in place of a linked resolv.conf", async () => {
    const passwd =
      "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532::/home/nonroot:/sbin/nologin\nold:x:1000:1000::/:\n";
    using root = new ForeignRoot({ "etc/passwd": passwd, "etc/group": "root:x:0:\nvideo:x:1001:nonroot\n" });
    root.write("etc/shadow", "root:*:19000:0:99999:7:::\n", 0o640);
    root.write("etc/hosts", "127.0.0.1 localhost\n10.1.2.3 mine");
    symlinkSync("/run/systemd/resolve/stub-resolv.conf", join(root.path, "etc/resolv.conf"));
    expect(await root.run("provision", REQUEST)).toMatchObject(QUIET);
    expect(root.read("etc/passwd")).toBe(`${passwd}user:x:1002:1002::/home/user:/sbin/nologin\n`);
    expect(root.read("etc/group")).toBe("root:x:0:\nvideo:x:1001:nonroot\nuser:x:1002:\n");
    expect(root.read("etc/shadow")).toMatch(/^root:.*\nuser::\d+:0:99999:7:::\n$/);
    expect(stat(root, "etc/shadow").mode).toBe("640");
    expect(root.read("etc/hosts")).toBe(
      "127.0.0.1 localhost\n10.1.2.3 mine\n::1 localhost ip6-localhost ip6-loopback\n198.18.0.2 e2b.local\n",
    );
    expect(lstatSync(join(root.path, "etc/resolv.conf")).isFile()).toBe(true);
  });

  test("an existing account called user stays unchanged and has a home", async () => {
    const passwd = "root:x:0:0::/root:\nuser:x:123:45::/srv/user:/bin/sh\n";
    using root = new ForeignRoot({ "etc/passwd": passwd, "etc/skel/.profile": "hello" });
    expect(await root.run("provision", REQUEST)).toMatchObject(QUIET);
    expect(root.read("etc/passwd")).toBe(passwd);
    expect(stat(root, "srv/user")).toEqual({ uid: 123, gid: 45, mode: "755" });
    expect(root.read("srv/user/.profile")).toBe("hello");
    expect(stat(root, "srv/user/.profile").uid).toBe(123);
  });
});

describe("a root like Alpine's", () => {
  function alpine(files: Record<string, string> = {}): ForeignRoot {
    const root = new ForeignRoot({
      "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
      "etc/group": "root:x:0:root\n",
      ...files,
    });
    root.addBusybox(["sh", "id"]);
    return root;
  }

  test("uses its own shell, and its programs know the account", async () => {
    using root = alpine();
    expect(await root.run("provision", REQUEST)).toMatchObject(QUIET);
    expect(root.read("etc/passwd")).toContain("user::1000:1000::/home/user:/bin/sh\n");
    expect(root.read("etc/profile")).toContain("export SHELL=/bin/sh\n");
    const known = await root.enter(["/bin/sh", "-lc", "id user; echo $SHELL"]);
    expect(known.stdout).toBe("uid=1000(user) gid=1000(user) groups=1000(user)\n/bin/sh\n");
    // Clients know no other name for a shell.
    const lent = await root.enter(["/bin/bash", "-lc", 'echo "$0 $1"', "name", "two words"]);
    expect(lent.stdout).toBe("name two words\n");
  });

  test("gets sudo rules that every version of sudo reads, if it has sudo", async () => {
    using root = alpine({ "usr/bin/sudo": "", "etc/sudoers": "root ALL=(ALL:ALL) ALL" });
    expect(await root.run("provision", REQUEST)).toMatchObject({ ...QUIET, stdout: "" });
    expect(root.read("etc/sudoers")).toBe("root ALL=(ALL:ALL) ALL\n#includedir /etc/sudoers.d\n");
    expect(root.read("etc/sudoers.d/user")).toBe("user ALL=(ALL:ALL) NOPASSWD: ALL\n");
    expect(stat(root, "etc/sudoers.d/user")).toEqual({ uid: 0, gid: 0, mode: "440" });
    expect(await root.run("provision", REQUEST)).toMatchObject(QUIET);
    expect(root.read("etc/sudoers").match(/includedir/g)?.length).toBe(1);
  });

  test("accounts are added for USER, once each", async () => {
    using root = alpine({ "usr/bin/sudo": "" });
    for (const times of ["first", "again"]) {
      expect(await root.run("add-user", { name: "worker.1", sudo: true }), times).toMatchObject({
        ...QUIET,
        stdout: "worker.1\n",
      });
      expect(await root.run("add-user", { name: "1000", sudo: false })).toMatchObject({
        ...QUIET,
        stdout: "worker.1\n",
      });
    }
    expect(root.read("etc/passwd").match(/worker/g)?.length).toBe(2);
    for (const name of ["worker.1:worker.1", "worker.1:1000", "1000:1000", "1000:worker.1"]) {
      expect(await root.run("add-user", { name, sudo: false })).toMatchObject({ ...QUIET, stdout: "worker.1\n" });
    }
    const { exitCode, stderr } = await root.run("add-user", { name: "worker.1:root", sudo: false });
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: '"root" is not the group of worker.1, and processes have that: leave it out\n',
    });
    // sudo passes over files whose names have a dot.
    expect(root.read("etc/sudoers.d/worker_1")).toContain("worker.1 ALL=");
    expect(await root.run("add-user", { name: "root", sudo: false })).toMatchObject({ ...QUIET, stdout: "root\n" });
    expect(await root.run("add-user", { name: "0", sudo: false })).toMatchObject({ ...QUIET, stdout: "root\n" });
  });

  test("invalid account names are rejected without any change", async () => {
    using root = alpine();
    const before = wholeTree(root);
    for (const name of ["", "a:b:c", ":", "a\nroot::0:0::/:", "../../etc", "-x", "ä", "n".repeat(33), "a b", "$(id)"]) {
      const { exitCode, stderr } = await root.run("add-user", { name, sudo: true });
      expect({ exitCode, stderr }).toEqual({
        exitCode: 1,
        stderr: expect.stringMatching(/^".*cannot be the name of a user: .*\n$/),
      });
    }
    const { exitCode, stderr } = await root.run("add-user", { name: "4711", sudo: false });
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: expect.stringContaining("no account has the user id 4711"),
    });
    expect(wholeTree(root)).toEqual(before);
  });

  test("a lock of an ended process is ignored", async () => {
    using root = alpine({ "etc/group.lock": "4194303\0" });
    expect(await root.run("add-user", { name: "worker", sudo: false })).toMatchObject(QUIET);
    expect(root.has("etc/group.lock")).toBe(false);
  });

  test("ten accounts are added at once", async () => {
    using root = alpine();
    const names = Array.from({ length: 10 }, (_, nth) => `worker${nth}`);
    const added = await Promise.all(names.map((name) => root.run("add-user", { name, sudo: false })));
    expect(added.map(({ stdout }) => stdout)).toEqual(names.map((name) => `${name}\n`));
    const accounts = root.read("etc/passwd").trim().split("\n").slice(1);
    expect(new Set(accounts.map((line) => line.split(":")[0]))).toEqual(new Set(names));
    expect(new Set(accounts.map((line) => line.split(":")[2])).size).toBe(10);
    expect(root.has("etc/passwd.lock")).toBe(false);
  });
});

test("in a real sandbox the program runs like any process, and the files of base stay", async () => {
  await here.withSandbox(async (id) => {
    const commands = new GuestCommands(here.machine.addressOf(id) ?? "", "");
    const before = await shell(here.data, id, "md5sum /etc/passwd /etc/shadow /etc/group /etc/profile /etc/hosts");
    for (const { cmd, args, envs, cwd } of [
      guestProgram("provision", REQUEST),
      guestProgram("add-user", { name: "user", sudo: true }),
    ]) {
      const command = { argv: [cmd, ...args] as [string, ...string[]], user: "root", cwd, envVars: envs };
      const end = await commands.run(command, () => undefined, AbortSignal.timeout(60_000));
      expect(end).toEqual({ exitCode: 0, signal: "" });
    }
    expect(await shell(here.data, id, "su user -c 'sudo -n id -u'")).toBe("0");
    const after = await shell(here.data, id, "md5sum /etc/passwd /etc/shadow /etc/group /etc/profile /etc/hosts");
    expect(after.split("\n").slice(0, 4)).toEqual(before.split("\n").slice(0, 4));
  });
});
