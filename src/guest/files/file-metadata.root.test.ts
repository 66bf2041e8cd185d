/** File metadata on a real daemon: kept from an upload's headers, replaced as a whole, and shown. */
import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { replaceMetadata } from "../system/extended-attributes.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { parseMetadata } from "./file-metadata.ts";

const guest = await guestOfFile();
const folder = `${guest.folder}/files`;
mkdirSync(folder);

interface Uploaded {
  name: string;
  path: string;
  type: string;
  metadata?: Record<string, string>;
}

const OCTETS = { "Content-Type": "application/octet-stream" };
const upload = (path: string, headers: Record<string, string>, body = "x") =>
  guest.fetch(`/files?${new URLSearchParams({ path })}`, { method: "POST", headers: { ...OCTETS, ...headers }, body });
const answered = async (response: Promise<Response>) => (await (await response).json()) as Uploaded[];
const shown = async (path: string) => {
  const response = await guest.call("filesystem.Filesystem/Stat", { path });
  return ((await response.json()) as { entry: { metadata?: Record<string, string> } }).entry.metadata;
};

/** With Python, so that the guest's own code does not read what it wrote. */
function attributes(path: string): Record<string, string> {
  const script =
    "import os,sys,json; p=sys.argv[1]; print(json.dumps({n: os.getxattr(p,n).hex() for n in os.listxattr(p)}))";
  const { stdout, exitCode } = Bun.spawnSync(["python3", "-c", script, path]);
  expect(exitCode).toBe(0);
  const found = JSON.parse(stdout.toString()) as Record<string, string>;
  return Object.fromEntries(
    Object.entries(found).map(([name, hex]) => [name, Buffer.from(hex, "hex").toString("latin1")]),
  );
}

function setAttribute(path: string, name: string, hex: string): void {
  const script = "import os,sys; os.setxattr(sys.argv[1], bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3]))";
  const encoded = Buffer.from(name, "latin1").toString("hex");
  expect(Bun.spawnSync(["python3", "-c", script, path, encoded, hex]).exitCode).toBe(0);
}

describe("metadata of an upload", () => {
  test("becomes attributes, is returned, and is shown with the entry", async () => {
    const path = `${folder}/first`;
    const metadata = { owner: "Me & You", empty: "", "a.b_c": "~ !" };
    const [file] = await answered(
      upload(path, { "X-Metadata-Owner": "Me & You", "X-METADATA-EMPTY": "", "x-metadata-A.b_C": "~ !" }),
    );
    expect(file).toEqual({ name: "first", path, type: "file", metadata });
    expect(attributes(path)).toEqual({ "user.e2b.owner": "Me & You", "user.e2b.empty": "", "user.e2b.a.b_c": "~ !" });
    expect(await shown(path)).toEqual(metadata);
  });

  test("replaces all earlier metadata, and no other attributes", async () => {
    const path = `${folder}/replaced`;
    await upload(path, { "X-Metadata-Old": "1", "X-Metadata-Both": "1" });
    setAttribute(path, "user.mine", "31");
    setAttribute(path, "user.e2b.\xff\xfe", "31");
    const [file] = await answered(upload(path, { "X-Metadata-New": "2", "X-Metadata-Both": "2" }));
    expect(file?.metadata).toEqual({ new: "2", both: "2" });
    expect(attributes(path)).toEqual({ "user.mine": "1", "user.e2b.new": "2", "user.e2b.both": "2" });
  });

  test("follows a link to the file; a link has no metadata", async () => {
    symlinkSync(`${folder}/target`, `${folder}/link`);
    expect((await upload(`${folder}/link`, { "X-Metadata-A": "1" })).status).toBe(200);
    expect(await shown(`${folder}/target`)).toEqual({ a: "1" });
    expect(await shown(`${folder}/link`)).toBeUndefined();
  });

  test("may have names such as constructor", async () => {
    const path = `${folder}/prototype`;
    await upload(path, { "X-Metadata-Constructor": "c", "X-Metadata-ToString": "t" });
    expect(await shown(path)).toEqual({ constructor: "c", tostring: "t" } as Record<string, string>);
  });
});

describe("the bounds of metadata", () => {
  const status = async (headers: Record<string, string>) => {
    const response = await upload(`${folder}/bounds`, headers);
    return [response.status, await response.text()] as const;
  };

  test("a key of 246 bytes is the longest", async () => {
    expect((await status({ [`X-Metadata-${"k".repeat(246)}`]: "1" }))[0]).toBe(200);
    expect(await status({ [`X-Metadata-${"k".repeat(247)}`]: "1" })).toEqual([400, expect.stringContaining("246")]);
  });

  test("4096 bytes with nine for each key are the most", () => {
    const parse = (length: number) =>
      parseMetadata(new Headers({ "X-Metadata-A": "v".repeat(length), "X-Metadata-B": "w" }));
    const rest = 4096 - 2 * (9 + 1) - 1;
    expect(parse(rest).a).toHaveLength(rest);
    expect(() => parse(rest + 1)).toThrow(
      expect.objectContaining({ status: 400, message: expect.stringContaining("4097") }),
    );
  });

  test.each([
    ["a value beyond ASCII", { "X-Metadata-A": "caf\u00e9" }],
    ["a tab in a value", { "X-Metadata-A": "a\tb" }],
    ["no key", { "X-Metadata-": "1" }],
  ])("%s is refused, and nothing is written", async (_what, headers) => {
    const path = `${folder}/refused`;
    expect((await upload(path, headers as Record<string, string>)).status).toBe(400);
    expect(existsSync(path)).toBe(false);
  });

  test("a header sent twice arrives as one value: Bun joins them", () => {
    const headers = new Headers();
    headers.append("X-Metadata-A", "1");
    headers.append("X-Metadata-A", "2");
    expect(parseMetadata(headers)).toEqual({ a: "1, 2" });
  });
});

describe("where metadata cannot be kept", () => {
  async function mounted(type: string, options: string[], work: (place: string) => Promise<void>): Promise<void> {
    const place = `${guest.folder}/mounted`;
    mkdirSync(place, { recursive: true });
    expect(Bun.spawnSync(["mount", "-t", type, ...options, place]).exitCode).toBe(0);
    try {
      await work(place);
    } finally {
      Bun.spawnSync(["umount", place]);
    }
  }

  /** A separate disk, without room for attributes beyond one block, whatever the machine's disk allows. */
  const onSmallDisk = (work: (place: string) => Promise<void>) => {
    const image = `${guest.folder}/image`;
    Bun.spawnSync(["truncate", "-s", "8M", image]);
    expect(Bun.spawnSync(["mkfs.ext4", "-q", "-F", "-I", "256", "-b", "1024", image]).exitCode).toBe(0);
    return mounted("ext4", ["-o", "loop", image], work);
  };

  test("a file system without attributes ignores it", () =>
    mounted("ramfs", ["ramfs"], async (place) => {
      const response = await upload(`${place}/file`, { "X-Metadata-A": "1" });
      expect([response.status, await response.json()]).toEqual([
        200,
        [{ name: "file", path: `${place}/file`, type: "file" }],
      ]);
      expect(readFileSync(`${place}/file`, "utf8")).toBe("x");
      expect(await shown(`${place}/file`)).toBeUndefined();
    }));

  // Guards against truncating the file before the attributes are set (its content is gone), and attributes of which
  // only some are set.
  test("without space for it the response is 507; a new file is removed, an old one unchanged", () =>
    onSmallDisk(async (place) => {
      const much = { "X-Metadata-A": "small", "X-Metadata-B": "v".repeat(3000) };
      expect((await upload(`${place}/new`, much)).status).toBe(507);
      expect(existsSync(`${place}/new`)).toBe(false);
      expect((await upload(`${place}/old`, { "X-Metadata-Kept": "yes" }, "kept")).status).toBe(200);
      expect((await upload(`${place}/old`, much, "other")).status).toBe(507);
      expect(readFileSync(`${place}/old`, "utf8")).toBe("kept");
      expect(attributes(`${place}/old`)).toEqual({ "user.e2b.kept": "yes" });
    }));
});

describe("metadata of an entry", () => {
  test("leaves out other attributes and values that are not text", async () => {
    const path = `${folder}/mixed`;
    writeFileSync(path, "");
    setAttribute(path, "user.e2b.text", Buffer.from("gr\u00fcn").toString("hex"));
    setAttribute(path, "user.e2b.bytes", "fffe");
    setAttribute(path, "user.e2b.\xff", "31");
    setAttribute(path, "user.other", "31");
    setAttribute(path, "trusted.e2b.a", "31");
    expect(await shown(path)).toEqual({ text: "grün" });
  });

  test("is not read from a pipe", async () => {
    Bun.spawnSync(["mkfifo", `${folder}/pipe`]);
    expect(await shown(`${folder}/pipe`)).toBeUndefined();
  });
});

test("attributes are set on the open file, even if its name refers to another", async () => {
  writeFileSync(`${folder}/opened`, "");
  await using file = await open(`${folder}/opened`, "r+");
  Bun.spawnSync(["mv", `${folder}/opened`, `${folder}/elsewhere`]);
  writeFileSync(`${folder}/opened`, "another");
  expect(replaceMetadata(file.fd, { a: "1" })).toBe(true);
  expect([attributes(`${folder}/opened`), attributes(`${folder}/elsewhere`)]).toEqual([{}, { "user.e2b.a": "1" }]);
  expect(statSync(`${folder}/elsewhere`).size).toBe(0);
});
