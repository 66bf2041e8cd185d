/**
 * Uploads to a real daemon that break off, or race for one file. Files are written in place; these guarantees still
 * hold.
 */
import { describe, expect, test } from "bun:test";
import { linkSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { untilTrue } from "../../base/testing/until.ts";
import { emptyFolderOf, guestOfFile } from "../testing/guest-of-file.ts";

const guest = await guestOfFile();
const folder = emptyFolderOf(guest);

const target = (path: string) => `/files?${new URLSearchParams({ path })}`;
const whole = (path: string, body: string) =>
  guest.fetch(target(path), { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body });
const size = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? -1;

/** An upload of so many bytes, which it sends only on request. */
async function begin(path: string, length: number, head = "Content-Type: application/octet-stream") {
  const answer = Promise.withResolvers<string>();
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: guest.port,
    socket: { data: (_, bytes) => answer.resolve(bytes.toString()), close: () => answer.resolve("closed") },
  });
  socket.write(`POST ${target(path)} HTTP/1.1\r\nHost: x\r\n${head}\r\nContent-Length: ${length}\r\n\r\n`);
  return {
    send: (text: string) => socket.write(text),
    breakOff: () => socket.terminate(),
    answered: async () => {
      const status = (await answer.promise).split(" ")[1];
      socket.end();
      return Number(status);
    },
  };
}

describe("an interrupted upload", () => {
  test.each([
    ["a file", (path: string) => path],
    [
      "a link to nothing yet",
      (path: string) => {
        symlinkSync(path, `${path}-link`);
        return `${path}-link`;
      },
    ],
  ])("removes the partial file that it created, through %s", async (_what, place) => {
    const path = `${folder}/fresh`;
    const upload = await begin(place(path), 9000);
    upload.send("partial");
    await untilTrue(() => size(path) === 7);
    upload.breakOff();
    await untilTrue(() => size(path) === -1);
  });

  test("keeps an existing file, with the bytes that arrived", async () => {
    const path = `${folder}/present`;
    writeFileSync(path, "x".repeat(1_000_000));
    const upload = await begin(path, 9000);
    upload.send("partial");
    await untilTrue(() => size(path) === 7);
    upload.breakOff();
    await answersAfterwards(path);
    expect(readFileSync(path, "utf8")).toBe("partial");
  });

  // Guards against partial files that stay, as does the first test.
  test("inside a form keeps the earlier files, and removes its own", async () => {
    const part = (name: string, content: string) =>
      `--b\r\nContent-Disposition: form-data; name="file"; filename="${folder}/${name}"\r\n\r\n${content}`;
    const upload = await begin("", 9000, "Content-Type: multipart/form-data; boundary=b");
    upload.send(`${part("one", "first")}\r\n${part("two", "x".repeat(100))}`);
    await untilTrue(() => size(`${folder}/two`) > 0);
    upload.breakOff();
    await untilTrue(() => size(`${folder}/two`) === -1);
    expect(readdirSync(folder)).toEqual(["one"]);
    expect(readFileSync(`${folder}/one`, "utf8")).toBe("first");
  });

  // Guards against removing the file of an upload that has got 200.
  test("keeps a file that another upload has written to", async () => {
    const path = `${folder}/shared`;
    const first = await begin(path, 9000);
    first.send("first");
    await untilTrue(() => size(path) === 5);
    expect((await whole(path, "the second")).status).toBe(200);
    first.breakOff();
    await answersAfterwards(path);
    expect(readFileSync(path, "utf8")).toBe("the second");
  });
});

describe("two uploads to one file at the same time", () => {
  // Guards against a short file, though last, that keeps the tail of the long one.
  test.each(["by one name", "by two hard links", "by a link"])(
    "leave the length of the one that ends last, %s",
    async (how) => {
      const path = `${folder}/one`;
      const other = `${folder}/${how === "by one name" ? "one" : "two"}`;
      writeFileSync(path, "before");
      if (how === "by two hard links") linkSync(path, other);
      if (how === "by a link") symlinkSync(path, other);
      const short = await begin(path, 10);
      short.send("s".repeat(5));
      await untilTrue(() => readFileSync(path, "utf8") === "sssss");
      const long = await begin(other, 1000);
      long.send("l".repeat(1000));
      expect(await long.answered()).toBe(200);
      short.send("s".repeat(5));
      expect(await short.answered()).toBe(200);
      // Each byte is of one of the two, since they write in place.
      expect(readFileSync(path, "utf8")).toBe("lllllsssss");
    },
  );

  test("leave the long one complete if it ends last", async () => {
    const path = `${folder}/one`;
    const long = await begin(path, 1000);
    long.send("l".repeat(5));
    await untilTrue(() => size(path) === 5);
    expect((await whole(path, "short")).status).toBe(200);
    long.send("l".repeat(995));
    expect(await long.answered()).toBe(200);
    expect(readFileSync(path, "utf8")).toBe(`short${"l".repeat(995)}`);
  });

  test("leave the length of one of them, also if there are many", async () => {
    const path = `${folder}/many`;
    const bodies = Array.from({ length: 20 }, (_, at) => String.fromCharCode(97 + at).repeat(50_000 + at * 20_000));
    const responses = await Promise.all(bodies.map((body) => whole(path, body)));
    expect(responses.map(({ status }) => status)).toEqual(bodies.map(() => 200));
    expect(bodies.map(({ length }) => length)).toContain(size(path));
  });

  test("to different files are independent", async () => {
    const slow = await begin(`${folder}/slow`, 4);
    slow.send("sl");
    await untilTrue(() => size(`${folder}/slow`) === 2);
    expect((await whole(`${folder}/quick`, "quick")).status).toBe(200);
    slow.send("ow");
    expect(await slow.answered()).toBe(200);
    expect([readFileSync(`${folder}/slow`, "utf8"), readFileSync(`${folder}/quick`, "utf8")]).toEqual([
      "slow",
      "quick",
    ]);
  });
});

// Guards against setting the length at the end of every upload.
test("data that a program appends during an upload stays", async () => {
  const path = `${folder}/log`;
  const upload = await begin(path, 6);
  upload.send("one");
  await untilTrue(() => size(path) === 3);
  writeFileSync(path, "......", { flag: "a" });
  upload.send("two");
  expect(await upload.answered()).toBe(200);
  expect(readFileSync(path, "utf8")).toBe("onetwo...");
});

/** A later upload of the same daemon is answered only after it has seen the connection break. */
async function answersAfterwards(path: string): Promise<void> {
  for (let at = 0; at < 20; at++) {
    expect((await whole(`${path}-later`, "x")).status).toBe(200);
    await Bun.sleep(5);
  }
}
