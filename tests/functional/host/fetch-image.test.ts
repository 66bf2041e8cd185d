/** Images fetched from real registries into real sandboxes. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chownSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { systemClock } from "../../../src/base/clock.ts";
import { LONG } from "../../../src/base/testing/long.ts";
import { timed } from "../../../src/base/testing/timed.ts";
import { FolderBlobs } from "../../../src/blobs/folder-blobs.ts";
import type { BuildOutcome, BuildStep, RegistryCredentials } from "../../../src/contract/internal/host.ts";
import { ociImage, ociIndex, push, writeLayout } from "../../../src/host/testing/oci-image.ts";
import { OUTSIDE } from "../../../src/host/testing/outer-network.ts";
import { type TarEntry, tar } from "../../../src/host/testing/tar.ts";
import { BASE_IMAGE } from "../../../src/setup/base-image.ts";
import { attempt, run as runTool } from "../../../src/system/command.ts";
import { attributeOf } from "../../../src/system/syscalls.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";
import { build, requestOf, requireReady, run, shellOf, withSandboxOf } from "../../support/building.ts";
import { CACHE } from "../../support/cache.ts";
import { NOTHING, settledCensus } from "../../support/census.ts";
import { recordOf } from "../../support/inside.ts";
import { MachineOfFile } from "../../support/machine-of-file.ts";
import { newDataFolder } from "../../support/server.ts";
import { makeCertificate, startBadRegistry, startRegistry } from "../../support/services/registry.ts";
import { until } from "../../support/until.ts";

const PRIVATE = "10.1.2.3";
const MEBIBYTE = 1024 ** 2;
const folder = newDataFolder("fetch-image-sources");
const blobs = await FolderBlobs.open(join(folder, "blobs"), systemClock);

const busybox = readFileSync(join(new Toolbox(CACHE).toolFolder, "usr/bin/busybox"));
const APPLETS = ["sh", "ls", "cat", "echo", "id", "stat", "env"];
/** Busybox, its links, and musl's loader: no bash, no sudo, no account but root's. */
const small: TarEntry[] = [
  { name: "bin/", kind: "folder" },
  { name: "bin/busybox", content: busybox, mode: 0o755 },
  ...APPLETS.map((name): TarEntry => ({ name: `bin/${name}`, kind: "symlink", target: "busybox" })),
  { name: "etc/", kind: "folder" },
  { name: "etc/passwd", content: "root:x:0:0:root:/root:/bin/sh\n" },
  { name: "etc/group", content: "root:x:0:\n" },
];
const alpine = ociImage({
  layers: [
    tar([
      ...small,
      { name: "gone", content: "x" },
      { name: "hidden/", kind: "folder" },
      { name: "hidden/1", content: "1" },
    ]),
    tar([
      { name: ".wh.gone" },
      { name: "hidden/.wh..wh..opq" },
      { name: "hidden/2", content: "2", owner: 1234, mode: 0o4750 },
      { name: "hidden/linked", kind: "hardlink", target: "hidden/2" },
      { name: "marked", content: "m", xattrs: { "user.colour": "blue" } },
    ]),
  ],
  config: { Env: ["PATH=/bin:/opt/bin", "GREETING=hello = world", "bad name=1"], User: "nobody", WorkingDir: "/srv" },
});
const layout = join(folder, "layout");
writeLayout(layout, alpine);
await runTool(["tar", "--create", "--file", join(folder, "oci.tar"), "--directory", layout, "."]);
for (const path of ["bin", "etc"]) mkdirSync(join(folder, "root", path), { recursive: true });
for (const { name, content, target } of small) {
  if (content !== undefined) writeFileSync(join(folder, "root", name), content, { mode: 0o755 });
  if (target !== undefined) symlinkSync(target, join(folder, "root", name));
}
writeFileSync(join(folder, "root/from-folder"), "yes");
chownSync(join(folder, "root/from-folder"), 7, 7);

const fetching = {
  templates: { base: BASE_IMAGE },
  local: {
    "example.test/kept": { kind: "layout", place: layout },
    "folder.test/root": { kind: "folder", place: join(folder, "root") },
    "archive.test/oci": { kind: "archive", place: join(folder, "oci.tar") },
    nowhere: { kind: "folder", place: "/nowhere" },
  },
  registries: [`${OUTSIDE}:5000`, `${OUTSIDE}:5001`, `${PRIVATE}:5000`].map((name) => ({ name, tls: false })),
  blobs,
  diskSizeMB: 256,
} as const;
const here = new MachineOfFile("fetch-image", { fetching });
/** A machine with short timeouts, for images that would block a build. */
const hurried = new MachineOfFile("fetch-image-hurried", {
  fetching: { ...fetching, questionMaxMs: 5_000, stalledMaxMs: 2_000 },
});

/** A machine whose operator has a certificate authority. */
const trusting = new MachineOfFile("fetch-image-trusting", {
  fetching: { ...fetching, authorities: [join(folder, "no-bundle"), join(folder, "authority.crt")] },
});

let good: Awaited<ReturnType<typeof startRegistry>>;
let inside: Awaited<ReturnType<typeof startRegistry>>;
let bad: Awaited<ReturnType<typeof startBadRegistry>>;
let closed: Awaited<ReturnType<typeof startRegistry>>;
beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  const own = await makeCertificate(join(folder, "authority"), join(folder, "own"), OUTSIDE);
  [good, inside, bad, closed] = await Promise.all([
    startRegistry(join(folder, "registry"), OUTSIDE, 5000),
    startRegistry(join(folder, "inside"), PRIVATE, 5000),
    startBadRegistry(layout, OUTSIDE, 5001),
    startRegistry(join(folder, "registry"), OUTSIDE, 5002, own),
  ]);
});
afterAll(async () => {
  for (const running of [good, inside, bad, closed]) await running[Symbol.asyncDispose]();
});

/** The outcome of a build without steps. */
async function fetched(
  image: string,
  credentials: RegistryCredentials | null = null,
  steps: readonly BuildStep[] = [],
  { machine } = here,
) {
  return await build(machine, requestOf(steps, { from: { kind: "registry", image, credentials } }));
}

const inSandbox = (outcome: BuildOutcome, line: string) => shellOf(here, outcome, line);

async function failure(image: string, credentials: RegistryCredentials | null = null, on = here): Promise<string> {
  const { outcome } = await fetched(image, credentials, [], on);
  if (outcome.isReady) throw new Error(`${image} was fetched`);
  expect(outcome.step).toBe("base");
  return outcome.message;
}

const image = (repository: string) => `${good.name}/${repository}`;

describe("an image of a registry", () => {
  test("is the result of its layers, with the user and files of every sandbox", async () => {
    await push(good.url, "team/alpine", "3", alpine);
    const { outcome } = await fetched(image("team/alpine:3"));
    expect(outcome).toMatchObject({
      isReady: true,
      defaultUser: "user",
      defaultWorkdir: "/home/user",
      envVars: { PATH: "/bin:/opt/bin", GREETING: "hello = world" },
    });
    const look = "ls / /hidden; stat -c '%u %a %h' /hidden/2; id -u user; cat /etc/hostname";
    const output = await inSandbox(outcome, look);
    const colour = await withSandboxOf(here, outcome, async (id) =>
      attributeOf(`/proc/${recordOf(here.data, id).pid}/root/marked`, "user.colour"),
    );
    expect(colour).toBe("blue");
    expect(output).not.toContain("gone");
    expect(output).toContain("/hidden:\n2\nlinked\n1234 4750 2\n1000\n");
    // The same again is the same image.
    expect((await fetched(image("team/alpine:3"))).outcome).toEqual(outcome);
  });

  test("is chosen for this machine's architecture, or the error names the others", async () => {
    const other = ociImage({ layers: [tar([{ name: "other", content: "" }])], architecture: "s390x" });
    await push(good.url, "team/both", "latest", ociIndex([other, alpine]));
    requireReady((await fetched(image("team/both"))).outcome);
    await push(good.url, "team/other", "latest", ociIndex([other]));
    expect(await failure(image("team/other"))).toContain("it has linux/s390x");
    await push(good.url, "team/only-other", "latest", other);
    expect(await failure(image("team/only-other"))).toContain("it is for linux/s390x");
  });

  test("without a shell runs its own programs", async () => {
    const bare = ociImage({ layers: [tar([{ name: "app", content: busybox, mode: 0o755 }])] });
    await push(good.url, "team/bare", "latest", bare);
    const { outcome, entries } = await fetched(image("team/bare"));
    requireReady(outcome);
    expect(entries.map(({ message }) => message)).toContain("Unpacking the image");
    const { outcome: refused } = await fetched(image("team/bare"), null, [run("echo hello")]);
    expect(refused).toMatchObject({ isReady: false, step: "1", message: expect.stringContaining("no shell") });
  });

  test("requested by digest has exactly that digest", async () => {
    const { digest } = alpine.top;
    requireReady((await fetched(image(`team/alpine@${digest}`))).outcome);
    const wrong = `sha256:${"0".repeat(64)}`;
    expect(await failure(image(`team/alpine@${wrong}`))).toContain("no such image");
    expect(await failure(`${bad.name}/other-manifest@${digest}`)).toMatch(/not what it promised|its registry sent/);
  });

  test("in a private network is reached only if the operator allows it", async () => {
    await push(inside.url, "team/alpine", "3", alpine);
    requireReady((await fetched(`${PRIVATE}:5000/team/alpine:3`)).outcome);
    expect(await failure("172.16.5.6:5000/team/alpine:3")).toContain("cannot be reached");
    // Permission to fetch from one port of an address does not extend to its other ports.
    expect(await failure(`${PRIVATE}:80/team/alpine:3`)).toContain("cannot be reached");
  });
});

describe("a registry with a certificate of the operator's own authority", () => {
  test("is trusted only if the machine trusts that authority", async () => {
    await push(good.url, "team/signed", "1", alpine);
    const name = `${closed.name}/team/signed:1`;
    expect(await failure(name)).toContain("not one that this machine trusts");
    requireReady((await fetched(name, null, [], trusting)).outcome);
  });
});

const sesame: RegistryCredentials = { type: "registry", username: "reader", password: "sesame" };

describe("credentials", () => {
  test("are checked for each fetch, and stored blobs are not fetched again", async () => {
    const name = `${bad.name}/private-one:1`;
    requireReady((await fetched(name, sesame)).outcome);
    const first = await requestsMade();
    expect(first.filter((line) => line.startsWith("blobs"))).not.toEqual([]);
    expect(await failure(name)).toContain("does not let it be read");
    expect(await failure(name, { ...sesame, password: "knock-knock" })).not.toContain("knock-knock");
    await requestsMade();
    requireReady((await fetched(name, sesame)).outcome);
    const again = await requestsMade();
    expect(again.filter((line) => line.startsWith("manifests"))).not.toEqual([]);
    expect(again.filter((line) => line.startsWith("blobs"))).toEqual([]);
  });

  test("are on no disk, in no log and in no sandbox of the template", async () => {
    const { outcome, entries } = await fetched(`${bad.name}/private-two:1`, sesame);
    expect(JSON.stringify(entries)).not.toContain("sesame");
    const kept = await attempt(["grep", "--recursive", "--files-with-matches", "sesame", here.dataFolder], {
      timeoutMs: 60_000,
    });
    expect(kept.stdout).toBe("");
    expect(await inSandbox(outcome, "cat /run/fetch/login.json /etc/hosts 2>&1; ls /run")).not.toContain("fetch\n");
  });
});

async function requestsMade(): Promise<string[]> {
  return (await (await fetch(`${bad.url}/asked`)).json()) as string[];
}

describe("blobs", () => {
  test("of one repository are fetched again for another", async () => {
    await fetched(`${bad.name}/plain-one:1`);
    await requestsMade();
    await fetched(`${bad.name}/plain-two:1`);
    expect((await requestsMade()).filter((line) => line.startsWith("blobs")).length).toBeGreaterThan(1);
  });
});

/** With SANDLOT_TEST_LONG=1 only: src/builder/registry/tool-error.test.ts has messages of most of them. */
const RARELY_BAD: [string, RegExp][] = [
  ["too-many", /takes no more requests|longer than/],
  ["missing", /no such image/],
  ["broken", /could not be fetched/],
  ["long-manifest", /could not be fetched/],
  ["leads-inside", /cannot be reached/],
  ["short-blob", /could not be fetched/],
];
const BAD: [string, RegExp][] = [
  ["forbidden", /does not let it be read/],
  ["hangs", /longer than 5 s/],
  ["no-manifest", /does not describe an image/],
  ["other-bytes", /not what it promised/],
  ["endless-blob", /larger than what an image may take|not what it promised/],
  ["blob-hangs", /sent nothing for 2 s/],
  ["blob-leads-inside", /cannot be reached/],
  ...(LONG ? RARELY_BAD : []),
];

describe("a registry that does wrong", () => {
  /** Fetches that run into a timeout wait for it together. */
  const together = new Map<string, Promise<string>>();
  beforeAll(() => {
    for (const how of LONG ? ["too-many", "hangs"] : ["hangs"]) {
      const failed = failure(`${bad.name}/${how}:1`, null, hurried);
      failed.catch(() => undefined);
      together.set(how, failed);
    }
  });

  test.each(BAD)("%s: the build fails with the reason", async (how, reason) => {
    const failed = together.get(how) ?? failure(`${bad.name}/${how}:1`, null, how === "blob-hangs" ? hurried : here);
    expect(await failed).toMatch(reason);
  });

  timed("does not delay the cancellation of a build", async () => {
    const from = { kind: "registry", image: `${bad.name}/hangs:1`, credentials: null } as const;
    const request = requestOf([], { from });
    await requestsMade();
    const outcome = here.machine.build(request);
    await until("the registry is asked", async () =>
      (await requestsMade()).some((line) => line.startsWith("manifests")),
    );
    // The registry never answers.
    await here.machine.cancelBuild(request.id, "it is not needed any more");
    expect(await outcome).toEqual({ isReady: false, step: "base", message: "it is not needed any more" });
  });

  test("leaves nothing behind", async () => {
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
  });
});

describe("collected", () => {
  test("the notes about removed images", async () => {
    const { outcome } = await fetched(image("team/alpine:3"));
    const { image: name } = requireReady(outcome);
    const notes = join(here.dataFolder, "fetched-images");
    await here.machine.collectImages([name]);
    expect(readdirSync(notes)).not.toEqual([]);
    const kept = readdirSync(notes);
    for (const note of kept) await here.machine.parts.images.remove(note.replace(".json", ""));
    await here.machine.collectImages([]);
    expect(readdirSync(notes)).toEqual([]);
  });
});

describe("an image on this machine", () => {
  test("is used for its name without a registry", async () => {
    const { outcome } = await fetched("example.test/kept:any");
    expect(await inSandbox(outcome, "cat /hidden/2")).toBe("2");
  });

  test("may be an archive or a folder", async () => {
    const { outcome } = await fetched("folder.test/root");
    expect(await inSandbox(outcome, "cat /from-folder; stat -c %u /from-folder")).toBe("yes7");
    const { outcome: archived } = await fetched("archive.test/oci");
    expect(await inSandbox(archived, "cat /hidden/2")).toBe("2");
  });

  test("that is missing fails with its path", async () => {
    expect(await failure("nowhere")).toContain("/nowhere");
  });

  test("replaces the SDK's default image", async () => {
    const { outcome } = await fetched("e2bdev/base");
    expect(outcome).toMatchObject({ isReady: true, image: BASE_IMAGE, defaultUser: "user" });
  });
});

/** Each of these may do nothing but put a file into the image. */
const HARMLESS: TarEntry[] = [
  { name: "../../../etc/up", content: "x" },
  { name: "/etc/absolute", content: "x" },
  { name: "out", kind: "symlink", target: "/" },
  { name: "out/etc/linked", content: "x" },
  { name: "far-out", kind: "symlink", target: "../../../../../.." },
  { name: "far-out/etc/far", content: "x" },
  { name: "etc/disk", kind: "block", device: [7, 0], mode: 0o666 },
  { name: "etc/whiteout", kind: "character", device: [0, 0] },
  { name: "etc/twice", content: "x" },
  { name: "etc/twice", kind: "symlink", target: "/" },
  { name: "etc/twice", content: "x" },
  { name: `${"d/".repeat(300)}x`, content: "x" },
  { name: "hidden", kind: "folder", xattrs: { "trusted.overlay.opaque": "y", "security.selinux": "x" } },
];

const REFUSED: [string, TarEntry[], RegExp][] = [
  ["a hard link out", [{ name: "h", kind: "hardlink", target: "/etc/containers/policy.json" }], /no such file/],
  ["a root that is none", [{ name: ".", kind: "symlink", target: "/etc" }], /malicious/],
  ["a size that is none", [{ name: "s", content: "x", claimedSize: 1e10 }], /short write/],
  ["an owner that is none", [{ name: "s", content: "x", owner: 100_000 }], /lchown .* invalid argument/],
  ["a whiteout of everything", [{ name: ".wh..", content: "" }], /could not be fetched/],
];

describe("hostile layers", () => {
  test("stay within the image", async () => {
    await push(good.url, "hostile/harmless", "1", ociImage({ layers: [tar(small), tar(HARMLESS)] }));
    const { outcome } = await fetched(image("hostile/harmless:1"));
    const names = ["up", "absolute", "linked", "far", "disk", "whiteout", "twice"].map((name) => `/etc/${name}`);
    const output = await inSandbox(outcome, `for f in ${names.join(" ")}; do stat -c %F $f; done; ls /`);
    expect(output.split("\n").slice(0, names.length)).toEqual(names.map(() => expect.stringMatching(/^regular/)));
  });

  test.each(LONG ? REFUSED : REFUSED.slice(0, 2))("with %s are refused", async (what, entries, reason) => {
    const repository = `hostile/${what.replaceAll(" ", "-")}`;
    await push(good.url, repository, "1", ociImage({ layers: [tar(small), tar(entries)] }));
    expect(await failure(image(`${repository}:1`))).toMatch(reason);
  });

  test("without an end fill only their own disk", async () => {
    // Packed, a few hundred kilobytes: archives of zeros behind each other are one archive.
    const zeros = Array.from({ length: 32 }).fill(gzipSync(Buffer.alloc(16 * MEBIBYTE))) as Buffer[];
    const [header] = [tar([{ name: "bomb", content: "", claimedSize: 512 * MEBIBYTE }]).subarray(0, 512)];
    const packed = new Uint8Array(Buffer.concat([gzipSync(header), ...zeros]));
    await push(good.url, "hostile/bomb", "1", ociImage({ layers: [{ packed }] }));
    expect(await failure(image("hostile/bomb:1"))).toContain("larger than what an image may take");
  });
});
