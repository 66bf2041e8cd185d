import { describe, expect, test } from "bun:test";
import { MULTIPART_HEADER_MAX_BYTES, MULTIPART_PARTS_MAX, parseBoundary, readParts } from "./multipart.ts";

async function* inPieces(body: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < body.length; at += size) yield body.subarray(at, at + size);
}

async function parse(body: string | Buffer, size = 7, boundary = "XX") {
  const parts: { name: string | undefined; filename: string | undefined; content: string }[] = [];
  for await (const part of readParts(inPieces(Buffer.from(body), size), boundary)) {
    const chunks: Uint8Array[] = [];
    for await (const chunk of part.content) chunks.push(Buffer.from(chunk));
    parts.push({ name: part.name, filename: part.filename, content: Buffer.concat(chunks).toString("latin1") });
  }
  return parts;
}

const part = (disposition: string, content: string) =>
  `--XX\r\nContent-Disposition: form-data; ${disposition}\r\nContent-Type: text/plain\r\n\r\n${content}\r\n`;
const file = (name: string, content: string) => part(`name="file"; filename="${name}"`, content);

describe("a multipart body", () => {
  const tricky = "line\r\n--X\r\n\r\n--XY\r\n--XXX\r\n--XX-\r\r\n-";
  const body = `preamble\r\n${file("a.txt", tricky)}${file("b/c d.txt", "")}${file("é%22.txt", "\r\n")}--XX--\r\nafter`;

  test("is parsed alike for every split", async () => {
    const expected = [
      { name: "file", filename: "a.txt", content: tricky },
      { name: "file", filename: "b/c d.txt", content: "" },
      { name: "file", filename: "é%22.txt", content: "\r\n" },
    ];
    const length = Buffer.byteLength(body);
    for (let size = 1; size <= length; size++) expect(await parse(body, size)).toEqual(expected);
  });

  test("may start with its first delimiter and have no parts", async () => {
    expect(await parse("--XX--\r\n")).toEqual([]);
  });

  test("may have white space behind a delimiter, and parts without headers", async () => {
    expect(await parse("--XX \t\r\n\r\nhello\r\n--XX--")).toEqual([
      { name: undefined, filename: undefined, content: "hello" },
    ]);
  });

  test("skips unread content", async () => {
    const names: (string | undefined)[] = [];
    for await (const each of readParts(inPieces(Buffer.from(body), 5), "XX")) names.push(each.filename);
    expect(names).toEqual(["a.txt", "b/c d.txt", "é%22.txt"]);
  });

  test("that is truncated is an error at every length", async () => {
    const whole = `${file("a", "content")}--XX--`;
    for (let length = 0; length < whole.length; length++) {
      await expect(parse(whole.slice(0, length))).rejects.toThrow("closing boundary");
    }
    expect(await parse(whole)).toHaveLength(1);
  });

  test("with endless parts is rejected", async () => {
    const many = (count: number) => parse(`${file("a", "").repeat(count)}--XX--`, 1_000_000);
    expect(await many(MULTIPART_PARTS_MAX)).toHaveLength(MULTIPART_PARTS_MAX);
    await expect(many(MULTIPART_PARTS_MAX + 1)).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining(`more than ${MULTIPART_PARTS_MAX} parts`),
    });
  });

  test("with an endless header is refused", async () => {
    const endless = `--XX\r\nContent-Disposition: ${"x".repeat(MULTIPART_HEADER_MAX_BYTES + 1)}`;
    await expect(parse(`${endless}\r\n\r\n\r\n--XX--`, 1000)).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining("header is longer"),
    });
  });
});

describe("a part's name", () => {
  test.each([
    ['name="file"; filename="a\\"b\\\\c\\d"', 'a"b\\c\\d'],
    ["name=file; filename=plain.txt", "plain.txt"],
    ['name="file"; filename="x"; filename*=UTF-8\'\'%E2%82%AC%20a', "€ a"],
    ['filename="first"; name="file"', "first"],
    ['filename="a; name=b"; name="file"', "a; name=b"],
  ])("%s", async (disposition, filename) => {
    const [parsed] = await parse(`${part(disposition, "")}--XX--`, 1000);
    expect(parsed).toEqual({ name: "file", filename, content: "" });
  });
});

test.each([
  ["multipart/form-data; boundary=abc", "abc"],
  ['multipart/form-data; charset=utf-8; boundary="a b:c"', "a b:c"],
])("the boundary of %s", (type, boundary) => {
  expect(parseBoundary(type)).toBe(boundary);
});

test.each(["multipart/form-data", `multipart/form-data; boundary=${"x".repeat(71)}`])("%s is refused", (type) => {
  expect(() => parseBoundary(type)).toThrow("boundary");
});
