/** Files and folders of a sandbox: any content under any name is read back as it was written. */
import { beforeAll, expect, test } from "bun:test";
import { FileNotFoundError, FileType, InvalidArgumentError, Sandbox } from "e2b";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = sharedServer();
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
});

const ALL_BYTES = Uint8Array.from({ length: 65_536 }, (_, at) => (at * 31 + (at >> 8)) & 255);
const TEXT = "first line\nsecond: ü € 😀\r\nthird without an end";
const shell = async (script: string) => (await sandbox.commands.run(script)).stdout;

test.each([
  { way: "as a form", options: {} },
  { way: "as plain bytes", options: { useOctetStream: true } },
  { way: "compressed", options: { gzip: true } },
])("text, bytes, blobs and streams sent $way arrive unchanged", async ({ options }) => {
  for (const [kind, data, expected] of [
    ["text", TEXT, new TextEncoder().encode(TEXT)],
    ["bytes", ALL_BYTES.buffer, ALL_BYTES],
    ["blob", new Blob([ALL_BYTES]), ALL_BYTES],
    ["stream", new Blob([ALL_BYTES]).stream(), ALL_BYTES],
    ["nothing", "", new Uint8Array()],
  ] as const) {
    const written = await sandbox.files.write(`kinds/${kind}`, data, options);
    expect(written).toMatchObject({ name: kind, path: `/home/user/kinds/${kind}`, type: FileType.FILE });
    expect(Buffer.compare(await sandbox.files.read(`kinds/${kind}`, { format: "bytes" }), expected)).toBe(0);
    expect(Number(await shell(`stat -c %s kinds/${kind}`))).toBe(expected.length);
  }
});

test.each([{}, { gzip: true }])("a file is read as text, bytes, a blob or a stream, with %p", async (options) => {
  await sandbox.files.write("read-me", TEXT);
  expect(await sandbox.files.read("read-me", options)).toBe(TEXT);
  const bytes = new TextEncoder().encode(TEXT);
  expect(await sandbox.files.read("read-me", { ...options, format: "bytes" })).toEqual(bytes);
  const blob = await sandbox.files.read("read-me", { ...options, format: "blob" });
  expect(await blob.text()).toBe(TEXT);
  const stream = await sandbox.files.read("read-me", { ...options, format: "stream" });
  expect(await new Response(stream).text()).toBe(TEXT);
});

test("64 MiB make the round trip unchanged", async () => {
  const block = crypto.getRandomValues(new Uint8Array(65_536));
  const data = new Uint8Array(64 * 1024 * 1024);
  for (let at = 0; at < data.length; at += block.length) {
    data.set(block, at);
    // Each block differs, so that a lost, doubled or swapped block is noticed.
    new DataView(data.buffer).setUint32(at, at);
  }
  const sha256 = (bytes: Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
  await sandbox.files.write("large", new Blob([data]).stream(), { useOctetStream: true });
  expect(await shell("sha256sum < large")).toBe(`${sha256(data)}  -\n`);
  expect(sha256(await sandbox.files.read("large", { format: "bytes" }))).toBe(sha256(data));
  await sandbox.files.write("large", data.buffer);
  expect(await shell("sha256sum < large")).toBe(`${sha256(data)}  -\n`);
  await sandbox.files.remove("large");
});

test("missing parent folders are created for the user", async () => {
  await sandbox.files.write("/home/user/new/deep/er/file", "x");
  expect(await shell("stat -c '%U %G %a' new new/deep new/deep/er new/deep/er/file")).toBe(
    "user user 755\nuser user 755\nuser user 755\nuser user 644\n",
  );
});

test.each([{}, { useOctetStream: true }, { gzip: true }])(
  "many files are written in one call, with %p",
  async (options) => {
    const entries = Array.from({ length: 100 }, (_, at) => ({
      path: `many/${at % 10}/file ${at}`,
      data: `content ${at}`,
    }));
    const written = await sandbox.files.writeFiles(entries, options);
    expect(written.map(({ path }) => path)).toEqual(entries.map(({ path }) => `/home/user/${path}`));
    for (const { path, data } of entries) expect(await sandbox.files.read(path)).toBe(data);
    expect(await shell("find many -type f | wc -l")).toBe("100\n");
    await sandbox.files.remove("many");
  },
);

const STRANGE_NAMES = [
  "with space",
  "  spaces around  ",
  "ünïcödé-€-😀",
  "100%",
  "%41",
  "%2F",
  "%",
  "a+b&c=d?e#fixture",
  "semi;colon",
  "back\\slash",
  "new\nline",
  "tab\there",
  'double"quote',
  "single'quote",
  "`tick`$(touch pwned)",
  "-rf",
  "*",
  "..hidden",
  "a:b",
  "<b>",
];

test.each(STRANGE_NAMES)("a file may be called %j", async (name) => {
  const folder = `/home/user/strange/${name}`;
  const path = `${folder}/${name}`;
  expect(await sandbox.files.makeDir(folder)).toBe(true);
  expect(await sandbox.files.write(path, name)).toMatchObject({ name, path });
  expect(await sandbox.files.read(path)).toBe(name);
  expect(await sandbox.files.exists(path)).toBe(true);
  expect(await sandbox.files.getInfo(path)).toMatchObject({ name, path, size: Buffer.byteLength(name) });
  expect((await sandbox.files.list(folder)).map((entry) => entry.name)).toEqual([name]);
  const inside = await sandbox.commands.run('cat "$P"', { envs: { P: path } });
  expect(inside.stdout).toBe(name);
  expect(await sandbox.files.rename(path, `${path} 2`)).toMatchObject({ name: `${name} 2`, path: `${path} 2` });
  await sandbox.files.remove(`${path} 2`);
  expect(await sandbox.files.list(folder)).toEqual([]);
});

test("many files with strange names are written in one call", async () => {
  // A form cannot carry quotes and line breaks in names as they are; single writes carry every name.
  const names = STRANGE_NAMES.filter((name) => !/["\n\r]/.test(name));
  await sandbox.files.writeFiles(names.map((name) => ({ path: `/home/user/together/${name}`, data: name })));
  const found = await sandbox.files.list("/home/user/together");
  expect(found.map(({ name }) => name).sort()).toEqual([...names].sort());
  for (const name of names) expect(await sandbox.files.read(`/home/user/together/${name}`)).toBe(name);
});

test("files that root writes belong to root, and its relative paths begin at /root", async () => {
  await sandbox.files.write("mine/secret", "x", { user: "root" });
  const info = await sandbox.files.getInfo("/root/mine/secret");
  expect(info).toMatchObject({ owner: "root", group: "root", path: "/root/mine/secret" });
  expect(await sandbox.files.read("mine/secret", { user: "root" })).toBe("x");
  expect(await sandbox.files.makeDir("made", { user: "root" })).toBe(true);
  expect(await sandbox.files.getInfo("/root/made")).toMatchObject({ owner: "root" });
});

test("a path may begin with ~, and a relative one begins at home", async () => {
  await sandbox.files.write("~/tilde", "x");
  expect(await sandbox.files.read("/home/user/tilde")).toBe("x");
  expect(await sandbox.files.read("tilde")).toBe("x");
  expect(await sandbox.files.read("./new/../tilde")).toBe("x");
});

test("reading a missing file or a folder fails, and the error names it", async () => {
  const missing = await refusalOf(sandbox.files.read("/no/such/file"));
  expect(missing).toBeInstanceOf(FileNotFoundError);
  expect(missing.message).toContain("/no/such/file");
  expect(await refusalOf(sandbox.files.read("/etc"))).toBeInstanceOf(InvalidArgumentError);
  expect(await refusalOf(sandbox.files.write("/etc", "x"))).toBeInstanceOf(InvalidArgumentError);
});
