/** Fuzzes client requests for a sandbox's files, and the contents of a sandbox's own files. */
import { expect } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fuzzBytes, fuzzText, orRefused, orRefusedLater } from "../../base/testing/fuzz.ts";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { Accounts } from "../users/accounts.ts";
import { acceptsIdentity, chooseEncoding } from "./accept-encoding.ts";
import { parseRange } from "./byte-range.ts";
import { readComposeRequest } from "./compose-request.ts";
import { MULTIPART_BOUNDARY_MAX_BYTES, MULTIPART_PARTS_MAX, parseBoundary, readParts } from "./multipart.ts";

const folder = folderOfFile("fuzz");

fuzzText("a boundary is within the length limit, or rejected", {
  seeds: [
    "multipart/form-data; boundary=b",
    'multipart/form-data; charset=x; boundary="a\\"b c"',
    "multipart/form-data",
  ],
  check(text) {
    const boundary = orRefused(() => parseBoundary(text));
    if (boundary !== undefined) expect(Buffer.byteLength(boundary)).toBeLessThanOrEqual(MULTIPART_BOUNDARY_MAX_BYTES);
  },
});

async function partsIn(pieces: readonly Uint8Array[]): Promise<string> {
  async function* body() {
    yield* pieces;
  }
  const read = async () => {
    const parts: unknown[] = [];
    for await (const { name, filename, content } of readParts(body(), "b")) {
      let text = "";
      for await (const chunk of content) text += Buffer.from(chunk).toString("latin1");
      parts.push([name, filename, text]);
    }
    expect(parts.length).toBeLessThanOrEqual(MULTIPART_PARTS_MAX);
    return JSON.stringify(parts);
  };
  return (await orRefusedLater(read)) ?? "refused";
}

const part = (disposition: string, content: string) =>
  `--b\r\nContent-Disposition: ${disposition}\r\n\r\n${content}\r\n`;

fuzzBytes("parts of a body are parsed alike for every split", {
  seeds: [
    `${part('form-data; name="file"; filename="up"', "content\r\n--bb")}--b--\r\n`,
    `preamble\r\n${part("form-data; name=file; filename*=UTF-8''%e2%82%ac", "")}${part("x", "y")}--b--`,
    "--b\r\n\r\nno header\r\n--b \t\r\n\r\n\r\n--b--",
  ].map((text) => Buffer.from(text)),
  async check(bytes, random) {
    expect(await partsIn(random.split(bytes))).toBe(await partsIn([bytes]));
  },
  cases: 500,
});

fuzzText("a range lies within the file, or is rejected", {
  seeds: ["bytes=0-3", "bytes=-5", "bytes=7-", "bytes=0-1,3-4", "bytes=999999999999999-", "items=1-2"],
  check(header, random) {
    const size = random.pick([0, 1, 10, 2 ** 40]);
    const range = parseRange(header, size);
    if (typeof range === "string") return;
    expect(range.start >= 0 && range.start <= range.end && range.end < size).toBe(true);
  },
});

fuzzText("a chosen encoding is supported and accepted by the client", {
  seeds: ["gzip, deflate;q=0.5", "*;q=0, gzip;q=1", "identity;q=0", "gzip;q=NaN, *", ""],
  check(header) {
    expect([undefined, "gzip", "identity"]).toContain(chooseEncoding(header) as never);
    if (acceptsIdentity(header)) expect(chooseEncoding(header)).toBeDefined();
  },
});

fuzzText("a compose request has paths, or is rejected", {
  seeds: ['{"source_paths":["a","b"],"destination":"c","username":"user"}', "[]", '{"source_paths":[{"toString":1}]}'],
  async check(text) {
    const request = new Request("http://guest/files/compose", { method: "POST", body: text });
    const read = await orRefusedLater(() => readComposeRequest(request), [400, 413]);
    if (read !== undefined)
      expect([...read.sources, read.destination].every((path) => typeof path === "string")).toBe(true);
  },
});

const PASSWD = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/bash\n# none\n\nbad:x:-1:5\n";

fuzzText("accounts have valid ids, whatever the sandbox's files contain", {
  seeds: [PASSWD, "user:x:4294967296:0::\nuser:x:99999999999:1::\n", ":::::\n"],
  check(text) {
    writeFileSync(join(folder, "passwd"), text);
    writeFileSync(join(folder, "group"), text);
    const account = new Accounts(folder).find("user");
    if (account === undefined) return;
    for (const id of [account.uid, account.gid, ...account.groups])
      expect(Number.isInteger(id) && id >= 0 && id < 2 ** 32 - 1).toBe(true);
    expect(account.home).not.toBe("");
  },
  cases: 300,
});
