/**
 * POST /files/compose of a real daemon: it joins parts in order into one file, atomically, and no failure loses a byte.
 */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { fileSignature } from "../../contract/runtime/file-signature.ts";
import { emptyFolderOf, guestOfFile } from "../testing/guest-of-file.ts";
import { basic } from "../testing/running-guest.ts";

const guest = await guestOfFile();
const folder = emptyFolderOf(guest);
beforeEach(() => {
  for (const name of ["a", "b", "c"]) writeFileSync(`${folder}/${name}`, `[${name}]`);
});

const inFolder = (...names: string[]) => names.map((name) => `${folder}/${name}`);
const post = (body: unknown, headers: Record<string, string> = {}) =>
  guest.fetch("/files/compose", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
const compose = (source_paths: string[], destination: string, more: Record<string, unknown> = {}) =>
  post({ source_paths, destination, ...more });
const refusal = async (response: Promise<Response>) => {
  const { status, message } = await response.then(async (given) => ({
    status: given.status,
    ...((await given.json()) as { message: string }),
  }));
  return [status, message] as const;
};
const text = (path: string) => readFileSync(path, "utf8");
const names = () => readdirSync(folder).sort();

describe("parts", () => {
  test("are joined in the given order and removed afterwards", async () => {
    const whole = `${folder}/new/deep/whole`;
    const response = await compose(inFolder("c", "a", "b"), whole, { username: "daemon" });
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "application/json"]);
    expect(await response.json()).toEqual({ name: "whole", path: whole, type: "file" });
    expect(text(whole)).toBe("[c][a][b]");
    expect(names()).toEqual(["new"]);
    expect(readdirSync(`${folder}/new/deep`)).toEqual(["whole"]);
    const { uid, gid, mode } = statSync(whole);
    expect([uid, gid, mode & 0o777, statSync(`${folder}/new`).uid]).toEqual([1, 1, 0o644, 1]);
  });

  test("replace the destination, also a link, whose target stays", async () => {
    writeFileSync(`${folder}/old`, "a long earlier content");
    await compose(inFolder("a"), `${folder}/old`);
    expect(text(`${folder}/old`)).toBe("[a]");
    symlinkSync(`${folder}/old`, `${folder}/link`);
    await compose(inFolder("b"), `${folder}/link`);
    expect([lstatSync(`${folder}/link`).isFile(), text(`${folder}/link`), text(`${folder}/old`)]).toEqual([
      true,
      "[b]",
      "[a]",
    ]);
  });

  test("may be empty, be links, and have any name", async () => {
    const odd = ["spa ce", "ünï-日本", "100%25", "line\nbreak", 'quo"te'];
    for (const name of odd) writeFileSync(`${folder}/${name}`, name);
    writeFileSync(`${folder}/empty`, "");
    symlinkSync("a", `${folder}/link`);
    const whole = `${folder}/whole %41\n`;
    expect((await compose(inFolder("empty", ...odd, "link"), whole)).status).toBe(200);
    expect(text(whole)).toBe(`${odd.join("")}[a]`);
    // Of a link, the link is removed.
    expect(names()).toEqual(["a", "b", "c", "whole %41\n"]);
  });

  test("without a size but with content are read", async () => {
    expect((await compose(["/proc/version", `${folder}/a`], `${folder}/whole`)).status).toBe(200);
    expect(text(`${folder}/whole`)).toBe(`${text("/proc/version")}[a]`);
    expect(existsSync("/proc/version")).toBe(true);
  });

  test("lie on another file system than the destination", async () => {
    const path = `/dev/shm/sandlot-compose-${guest.pid}`;
    const content = Buffer.alloc(3_000_001, "other");
    writeFileSync(path, content);
    expect((await compose([`${folder}/a`, path, `${folder}/b`], `${folder}/whole`)).status).toBe(200);
    expect(text(`${folder}/whole`)).toBe(`[a]${content}[b]`);
    expect(existsSync(path)).toBe(false);
  });

  test("may have a destination with the longest possible name", async () => {
    const whole = `${folder}/${"n".repeat(255)}`;
    expect((await compose(inFolder("a"), whole)).status).toBe(200);
    expect(text(whole)).toBe("[a]");
  });

  test("that cannot be removed do not fail the request", async () => {
    const fixed = `${folder}/fixed`;
    mkdirSync(fixed);
    writeFileSync(`${fixed}/part`, "[fixed]");
    Bun.spawnSync(["mount", "--bind", fixed, fixed]);
    Bun.spawnSync(["mount", "-o", "remount,bind,ro", fixed]);
    try {
      expect((await compose([`${fixed}/part`, `${folder}/a`], `${folder}/whole`)).status).toBe(200);
      expect([text(`${folder}/whole`), text(`${fixed}/part`), existsSync(`${folder}/a`)]).toEqual([
        "[fixed][a]",
        "[fixed]",
        false,
      ]);
    } finally {
      Bun.spawnSync(["umount", fixed]);
    }
  });
});

describe("the user", () => {
  const owner = async (more: Record<string, unknown>, headers: Record<string, string> = {}) => {
    writeFileSync(`${folder}/part`, "");
    const response = await post({ source_paths: inFolder("part"), destination: `${folder}/owned`, ...more }, headers);
    return response.status === 200 ? statSync(`${folder}/owned`).uid : response.status;
  };

  test("comes from the body, else from the Basic header, else it is the default", async () => {
    expect(await owner({ username: "nobody" }, basic("daemon"))).toBe(65534);
    expect(await owner({}, basic("daemon"))).toBe(1);
    expect(await owner({ username: "" }, basic("daemon"))).toBe(1);
    expect(await owner({ username: null })).toBe(0);
    expect(await owner({ username: "ghost" })).toBe(401);
    expect(await owner({}, basic("ghost"))).toBe(401);
  });
});

describe("an invalid request is rejected and changes nothing:", () => {
  afterAll(() => guest.configure({}));

  test.each([
    ["no JSON", "{", "not JSON"],
    ["a list", [], "object"],
    ["no sources", { destination: "/x" }, "source_paths"],
    ["an empty list", { source_paths: [], destination: "/x" }, "source_paths"],
    ["sources that are one text", { source_paths: "/a", destination: "/x" }, "source_paths"],
    ["a source that is no text", { source_paths: ["/a", 1], destination: "/x" }, "source_paths[1]"],
    ["an empty source", { source_paths: [""], destination: "/x" }, "source_paths[0]"],
    ["no destination", { source_paths: ["/a"] }, "destination"],
    ["an empty destination", { source_paths: ["/a"], destination: "" }, "destination"],
    ["a user that is no text", { source_paths: ["/a"], destination: "/x", username: 5 }, "username"],
    ["a NUL byte in a path", { source_paths: ["/a\0b"], destination: "/x" }, 'source_paths contains a NUL byte: "/'],
    ["one in its target", { source_paths: ["/a"], destination: "/x\0" }, 'destination contains a NUL byte: "/'],
    ["another user's home", { source_paths: ["~other/a"], destination: "/x" }, "home"],
    ["a folder by its slash", { source_paths: ["/a"], destination: "/x/" }, "directory"],
    ["too many sources", { source_paths: Array(10_001).fill("/a"), destination: "/x" }, "10000"],
  ])("%s", async (_what, body, says) => {
    expect(await refusal(post(body))).toEqual([400, expect.stringContaining(says)]);
  });

  test("a body above its limit, with or without a Content-Length", async () => {
    const huge = JSON.stringify({ source_paths: ["/a".repeat(3 * 1024 * 1024)], destination: "/x" });
    expect((await post(huge)).status).toBe(413);
    const body = new Blob([huge]).stream();
    expect((await guest.fetch("/files/compose", { method: "POST", body })).status).toBe(413);
  });

  test("other methods", async () => {
    for (const method of ["GET", "PUT", "DELETE", "HEAD"]) {
      const response = await guest.fetch("/files/compose", { method });
      expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
    }
  });

  test("no token; a signature does not replace it", async () => {
    await guest.configure({ accessTokens: ["token"] });
    const destination = `${folder}/whole`;
    const signature = fileSignature(
      { path: destination, operation: "write", username: "", expiration: undefined },
      "token",
    );
    const body = JSON.stringify({ source_paths: inFolder("a"), destination });
    const query = new URLSearchParams({ path: destination, signature });
    const signed = await guest.fetch(`/files/compose?${query}`, { method: "POST", body });
    expect([signed.status, existsSync(destination)]).toEqual([401, false]);
    const opened = await guest.fetch("/files/compose", {
      method: "POST",
      body,
      headers: { "X-Access-Token": "token" },
    });
    expect(opened.status).toBe(200);
    await guest.configure({});
  });

  test("missing sources", async () => {
    symlinkSync("nowhere", `${folder}/broken`);
    for (const missing of ["missing", "broken", "a/below"]) {
      const [status, message] = await refusal(compose(inFolder("a", missing), `${folder}/whole`));
      expect([status, message]).toEqual([404, expect.stringContaining(`${folder}/${missing}`)]);
    }
    expect(names()).toEqual(["a", "b", "broken", "c"]);
  });

  // Seen to hang with sources opened plainly instead of looked at first: a pipe waits for its writer.
  test("sources that are not regular files, without blocking", async () => {
    mkdirSync(`${folder}/directory`);
    Bun.spawnSync(["mkfifo", `${folder}/pipe`]);
    symlinkSync("pipe", `${folder}/link`);
    symlinkSync("loop", `${folder}/loop`);
    for (const path of [...inFolder("directory", "pipe", "link", "loop"), "/dev/zero", "/dev/tty"]) {
      expect(await refusal(compose([`${folder}/a`, path], `${folder}/whole`))).toEqual([
        400,
        expect.stringContaining(path),
      ]);
    }
    expect(existsSync(`${folder}/whole`)).toBe(false);
  });

  // Guards against comparing paths as texts only.
  test("a source that is the destination, by any name", async () => {
    symlinkSync("a", `${folder}/link`);
    linkSync(`${folder}/a`, `${folder}/hard`);
    symlinkSync(".", `${folder}/here`);
    for (const destination of ["a", "./a", "here/a", "link", "hard", "b/../a"]) {
      const [status, message] = await refusal(compose(inFolder("b", "a"), `${folder}/${destination}`));
      expect([status, message]).toEqual([400, expect.stringContaining("also a source")]);
    }
    expect([text(`${folder}/a`), text(`${folder}/b`)]).toEqual(["[a]", "[b]"]);
  });

  test("a source named twice", async () => {
    linkSync(`${folder}/a`, `${folder}/hard`);
    for (const again of ["a", "./a", "hard"]) {
      const [status, message] = await refusal(compose(inFolder("a", "b", again), `${folder}/whole`));
      expect([status, message]).toEqual([400, expect.stringContaining("named twice")]);
    }
    expect(names()).toEqual(["a", "b", "c", "hard"]);
  });

  test("a destination that is a folder or a pipe", async () => {
    mkdirSync(`${folder}/directory`);
    Bun.spawnSync(["mkfifo", `${folder}/pipe`]);
    for (const destination of ["directory", "pipe", "directory/.", ""]) {
      expect((await compose(inFolder("a"), `${folder}/${destination}`)).status).toBe(400);
    }
    expect((await compose(inFolder("a"), `${folder}/b/below`)).status).toBe(500);
    expect(names()).toEqual(["a", "b", "c", "directory", "pipe"]);
  });
});
