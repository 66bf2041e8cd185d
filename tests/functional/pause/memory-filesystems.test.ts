/** A sandbox's in-memory filesystems keep their content through a pause, and in copies. */
import { afterAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const made: Sandbox[] = [];
afterAll(async () => {
  await Promise.all(made.map((sandbox) => sandbox.kill()));
});

const FOLDERS = "/dev/shm /run /dev /sys/fs/cgroup";
/** Names, owners, modes and link targets; for files also holes, whole seconds of their times, and contents. */
const LOOK = String.raw`
find ${FOLDERS} -xdev ! -path '/run/e2b*' ! -path '/run/sandlot*' ! -path '/dev/pts/*' -printf '%p|%y|%m|%U:%G|%l|' \
  \( -type f -printf '%n|%s|%b|%T@' -o -path '*/within' -printf '%T@' -o -true \) -printf '\0' |
  sed -z 's/\n/_/g; s/\.[0-9]*$//' | sort -z | tr '\0' '\n'
find /dev/shm -type f -exec md5sum {} + | sort`;
const WHERE = "grep -a ' tmpfs ' /proc/mounts | grep -v sandlot | sort; df --output=target,size,itotal /dev/shm /run";

async function root(sandbox: Sandbox, command: string): Promise<string> {
  return (await sandbox.commands.run(command, { user: "root" })).stdout;
}

async function pausedAndBack(sandbox: Sandbox): Promise<void> {
  await sandbox.pause();
  await Sandbox.connect(sandbox.sandboxId, { ...server().options, timeoutMs: 60_000 });
}

/** CRIU keeps only whole seconds of times. */
const SIMPLE = String.raw`
mkdir -p /dev/shm/kept/within /dev/shm/closed /run/mine && cd /dev/shm/kept
printf content > file; chmod 4751 file; chown 1000:33 file; chmod 4751 file
head -c 3000 /dev/urandom > within/random; printf 6 > "$(printf 'n%.0s' $(seq 93))"
printf 1 > '-dash'; printf 2 > 'back\slash * ?'; printf 3 > "$(printf 'new\nline')"; printf 4 > "$(printf '\303\274')"
ln -s /etc/passwd absolute; ln -s ../../.. relative; ln -s nowhere dangling
printf secret > /run/mine/file; chmod 700 /run/mine; chown 1000:1000 /run/mine
ln -s /run/mine /dev/own-link
chmod 000 /dev/shm/closed; chown 9:10 /dev/shm/closed
touch -d @1500000000 within/random; touch -d @1500000001 within; touch -d @1500000002 .; chmod 1770 .`;

const ODD = `
cd /dev/shm && mkdir -p kept && cd kept && mkfifo -m 640 pipe && printf x > one && ln one two && chown 3:4 one
truncate -s 20M hole && printf end >> hole
printf 5 > "$(printf 'n%.0s' $(seq 200))"; ln -s "$(printf 't%.0s' $(seq 200))" far
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("/run/left.sock")'
touch -d @1500000003 .`;

const ROOTS = "chmod 700 /dev/shm; chown 1000:1000 /dev/shm; chmod 711 /run";

const FILLINGS = [
  ["nothing", "true"],
  ["a link of somebody else", `${SIMPLE}\nchown -h 7:8 dangling`],
  ["a link in a folder whose group is given on", `${SIMPLE}\nchown 0:33 .; chmod 2770 .`],
  ["all of it, in folders with other modes and owners", `${SIMPLE}\n${ODD}\n${ROOTS}`],
] as const;
/** With SANDLOT_TEST_LONG=1 only: parts of the last one above. */
const PARTS = [
  ["ordinary files", SIMPLE],
  ["pipes, second names, holes and long names", ODD],
  ["both", `${SIMPLE}\n${ODD}`],
  ["nothing, in folders with other modes and owners", ROOTS],
] as const;

test.each(LONG ? [FILLINGS, PARTS].flat() : FILLINGS)(
  "an in-memory filesystem with %s is unchanged after two pauses and in a copy",
  async (_what, fill) => {
    const sandbox = await Sandbox.create(server().options);
    made.push(sandbox);
    await root(sandbox, fill);
    const [before, mounts] = [await root(sandbox, LOOK), await root(sandbox, WHERE)];
    expect(before).toContain("/dev/shm|d|");
    await pausedAndBack(sandbox);
    expect(socketless(await root(sandbox, LOOK))).toBe(socketless(before));
    await pausedAndBack(sandbox);
    expect(socketless(await root(sandbox, LOOK))).toBe(socketless(before));
    expect(ofAnyRange(await root(sandbox, WHERE))).toBe(ofAnyRange(mounts));

    const snapshot = await sandbox.createSnapshot();
    const copy = await Sandbox.create(snapshot.snapshotId, server().options);
    made.push(copy);
    expect(socketless(await root(copy, LOOK))).toBe(socketless(before));
    expect(await root(copy, "echo new > /dev/shm/new && cat /dev/shm/new")).toBe("new\n");
  },
);

/** A socket without a listener, left out because tar keeps no sockets. */
const socketless = (text: string) => text.replace(/^\/run\/left\.sock.*\n/m, "");
/** Each restore may have other ids of the machine. */
const ofAnyRange = (text: string) => text.replace(/[ug]id=\d+/g, "id");
