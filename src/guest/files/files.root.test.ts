/** File transfers of a real daemon: content arrives unchanged, in flat memory, under any name. */
import { beforeAll, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { basic } from "../testing/running-guest.ts";

const guest = await guestOfFile();
const folder = `${guest.folder}/files`;
mkdirSync(folder);

const OCTETS = { "Content-Type": "application/octet-stream" };
const at = (path: string, more: Record<string, string> = {}) => `/files?${new URLSearchParams({ path, ...more })}`;
const post = (path: string, body: BodyInit, headers: Record<string, string> = OCTETS) =>
  guest.fetch(at(path), { method: "POST", headers, body });
const get = (path: string, headers: Record<string, string> = { "Accept-Encoding": "identity" }) =>
  guest.fetch(at(path), { headers });

function form(files: [name: string, content: string | Blob][]): FormData {
  const data = new FormData();
  for (const [name, content] of files) data.append("file", new Blob([content]), name);
  return data;
}

describe("an upload", () => {
  test("of raw bytes creates the file and its parents for the user", async () => {
    const path = `${folder}/new/deep/a.bin`;
    const response = await guest.fetch(at(path, { username: "daemon" }), {
      method: "POST",
      headers: OCTETS,
      body: "hi",
    });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(await response.json()).toEqual([{ name: "a.bin", path, type: "file" }]);
    expect(readFileSync(path, "utf8")).toBe("hi");
    const { uid, gid, mode } = statSync(path);
    expect([uid, gid, mode & 0o777, statSync(`${folder}/new`).uid]).toEqual([1, 1, 0o644, 1]);
  });

  test("takes its user from the parameter, else from the Basic header", async () => {
    const uid = async (name: string, query: Record<string, string>, headers: Record<string, string>) => {
      const path = `${folder}/${name}`;
      await guest.fetch(at(path, query), { method: "POST", headers: { ...OCTETS, ...headers }, body: "" });
      return statSync(path).uid;
    };
    expect(await uid("u1", {}, {})).toBe(0);
    expect(await uid("u2", {}, basic("daemon"))).toBe(1);
    expect(await uid("u3", { username: "nobody" }, basic("daemon"))).toBe(
      statSync("/proc/self").uid === 0 ? 65534 : -1,
    );
    const ghost = await guest.fetch(at(`${folder}/u4`, { username: "ghost" }), {
      method: "POST",
      headers: OCTETS,
      body: "",
    });
    expect(ghost.status).toBe(401);
  });

  test("of several files by their names, relative ones in the home", async () => {
    const one = `${folder}/one/x.txt`;
    const two = `${folder}/two y.txt`;
    const body = form([
      [one, "1"],
      [two, "22"],
    ]);
    body.append("comment", "not a file");
    const response = await guest.fetch("/files", { method: "POST", body });
    expect(((await response.json()) as { path: string }[]).map(({ path }) => path)).toEqual([one, two]);
    expect([readFileSync(one, "utf8"), readFileSync(two, "utf8")]).toEqual(["1", "22"]);
  });

  test("replaces an existing file in place and keeps its mode", async () => {
    const path = `${folder}/existing`;
    writeFileSync(path, "longer than before", { mode: 0o755 });
    const { ino } = statSync(path);
    await guest.fetch(at(path), { method: "POST", body: form([["ignored", "short"]]) });
    expect(readFileSync(path, "utf8")).toBe("short");
    expect([statSync(path).ino, statSync(path).mode & 0o777]).toEqual([ino, 0o755]);
  });

  test("through a dangling link creates the target", async () => {
    symlinkSync(`${folder}/target`, `${folder}/dangling`);
    expect((await post(`${folder}/dangling`, "through")).status).toBe(200);
    expect(readFileSync(`${folder}/target`, "utf8")).toBe("through");
  });

  test("in gzip is unpacked, as raw bytes and as a form", async () => {
    const path = `${folder}/unpacked`;
    const headers = { ...OCTETS, "Content-Encoding": "gzip" };
    expect((await post(path, Bun.gzipSync(Buffer.from("packed")), headers)).status).toBe(200);
    expect(readFileSync(path, "utf8")).toBe("packed");
    const response = new Response(form([["x", "packed form"]]));
    const type = response.headers.get("content-type") ?? "";
    const body = Bun.gzipSync(await response.bytes());
    await post(path, body, { "Content-Type": type, "Content-Encoding": "gzip" });
    expect(readFileSync(path, "utf8")).toBe("packed form");
    expect((await post(`${folder}/damaged`, "no gzip", headers)).status).toBe(400);
    expect(existsSync(`${folder}/damaged`)).toBe(false);
  });

  test("that is invalid is rejected", async () => {
    writeFileSync(`${folder}/plain`, "");
    Bun.spawnSync(["mkfifo", `${folder}/pipe`]);
    const twice = form([
      [`${folder}/same`, "1"],
      [`${folder}/same`, "2"],
    ]);
    const status = async (response: Promise<Response>) => (await response).status;
    expect(await status(post(folder, "x"))).toBe(400);
    expect(await status(post(`${folder}/pipe`, "x"))).toBe(400);
    expect(await status(post(`${folder}/plain/child`, "x"))).toBe(500);
    expect(await status(post("", "x"))).toBe(400);
    expect(await status(post(`${folder}/x`, "x", { "Content-Type": "text/plain" }))).toBe(400);
    expect(await status(post(`${folder}/x`, "x", { ...OCTETS, "Content-Encoding": "br" }))).toBe(400);
    expect(await status(guest.fetch("/files", { method: "POST", body: twice }))).toBe(400);
    expect(readFileSync(`${folder}/same`, "utf8")).toBe("1");
    expect(existsSync(`${folder}/x`)).toBe(false);
  });

  // Guards against 500 for ENOSPC.
  test("to a full disk is 507", async () => {
    const full = `${guest.folder}/full`;
    mkdirSync(full);
    expect(Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", full]).exitCode).toBe(0);
    try {
      const response = await post(`${full}/big`, new Uint8Array(1_000_000));
      expect(response.status).toBe(507);
      expect(existsSync(`${full}/big`)).toBe(false);
    } finally {
      Bun.spawnSync(["umount", full]);
    }
  });
});

describe("a download", () => {
  const path = () => `${folder}/ten.html`;
  beforeAll(() => {
    writeFileSync(path(), "0123456789");
    utimesSync(path(), 1_700_000_000, 1_700_000_000);
  });

  test("without compression", async () => {
    const response = await get(path());
    expect(await response.text()).toBe("0123456789");
    expect(response.headers.get("content-type")).toContain("text/html");
    expect(response.headers.get("content-length")).toBe("10");
    expect(response.headers.get("content-disposition")).toBe('inline; filename="ten.html"');
    expect(response.headers.get("vary")).toContain("Accept-Encoding");
    expect(response.headers.get("last-modified")).toBe("Tue, 14 Nov 2023 22:13:20 GMT");
  });

  test("in gzip, also of an empty file", async () => {
    writeFileSync(`${folder}/empty`, "");
    for (const [file, content] of [
      [path(), "0123456789"],
      [`${folder}/empty`, ""],
    ] as const) {
      const response = await fetch(guest.url + at(file), { headers: { "Accept-Encoding": "gzip" }, decompress: false });
      expect(response.headers.get("content-encoding")).toBe("gzip");
      expect(Buffer.from(Bun.gunzipSync(await response.bytes())).toString()).toBe(content);
    }
    const plain = await get(`${folder}/empty`);
    expect([plain.status, await plain.text()]).toEqual([200, ""]);
  });

  test("of a file without a size but with content", async () => {
    expect(await (await get("/proc/version")).text()).toBe(readFileSync("/proc/version", "utf8"));
  });

  test("that is invalid is rejected", async () => {
    const missing = await get(`${folder}/missing`);
    expect(missing.status).toBe(404);
    expect(missing.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(await missing.json()).toEqual({ code: 404, message: expect.stringContaining(`${folder}/missing`) });
    expect((await get(folder)).status).toBe(400);
    expect((await get("~ghost/x")).status).toBe(400);
    expect((await get("/dev/zero")).status).toBe(400);
    expect((await get(path(), { "Accept-Encoding": "identity;q=0" })).status).toBe(406);
  });
});

// Guards against pieces of uploads that are left to the garbage collector.
describe("in little memory,", () => {
  const MIB = 1024 * 1024;
  const GROWTH_MAX_KIB = 40 * 1024;
  const source = () => `${guest.folder}/large`;

  const makeSource = (size: number) => {
    writeFileSync(source(), "");
    truncateSync(source(), size);
  };

  async function growth(work: () => Promise<void>): Promise<number> {
    await Bun.write(`/proc/${guest.pid}/clear_refs`, "5");
    const before = await guest.memoryKib();
    await work();
    return (await guest.memoryKib()).peak - before.now;
  }

  const curl = async (...options: string[]) => {
    const child = Bun.spawn(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{size_download}", ...options]);
    return new Response(child.stdout).text();
  };

  test("1 GiB is uploaded as raw bytes and downloaded", async () => {
    const size = 1024 * MIB;
    makeSource(size);
    const grown = await growth(async () => {
      const url = guest.url + at(`${folder}/large`);
      const octets = ["-X", "POST", "-H", "Content-Type: application/octet-stream"];
      expect(await curl("-T", source(), ...octets, url)).toStartWith("200");
      expect(statSync(`${folder}/large`).size).toBe(size);
      expect(await curl(url)).toBe(`200 ${size}`);
    });
    rmSync(`${folder}/large`);
    expect(grown).toBeLessThan(GROWTH_MAX_KIB);
  });

  test("256 MiB are uploaded as a form and downloaded in gzip", async () => {
    const size = 256 * MIB;
    makeSource(size);
    const grown = await growth(async () => {
      const url = guest.url + at(`${folder}/form`);
      expect(await curl("-F", `file=@${source()}`, url)).toStartWith("200");
      expect(statSync(`${folder}/form`).size).toBe(size);
      expect(await curl("-H", "Accept-Encoding: gzip", url)).toStartWith("200");
    });
    expect(grown).toBeLessThan(GROWTH_MAX_KIB);
  });

  test("256 MiB are unpacked from a small gzip body", async () => {
    const size = 256 * MIB;
    const bomb = Bun.gzipSync(new Uint8Array(size));
    const grown = await growth(async () => {
      const response = await post(`${folder}/unpacked-large`, bomb, { ...OCTETS, "Content-Encoding": "gzip" });
      expect(response.status).toBe(200);
    });
    expect(statSync(`${folder}/unpacked-large`).size).toBe(size);
    expect(grown).toBeLessThan(GROWTH_MAX_KIB);
  });
});
