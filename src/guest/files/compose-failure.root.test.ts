/** A compose that fails half-way or takes long loses nothing, leaves nothing behind and delays no other request. */
import { beforeEach, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { LONG } from "../../base/testing/long.ts";
import { timed } from "../../base/testing/timed.ts";
import { untilTrue } from "../../base/testing/until.ts";
import { emptyFolderOf, guestOfFile } from "../testing/guest-of-file.ts";
import { type CopyPart, compose, copyPart } from "./compose.ts";

const MIB = 1024 * 1024;
const owner = { name: "root", uid: 0, gid: 0, home: "/root", groups: [0] };

const guest = await guestOfFile();
const folder = emptyFolderOf(guest);

const post = (source_paths: string[], destination: string, init: RequestInit = {}) =>
  guest.fetch("/files/compose", { method: "POST", body: JSON.stringify({ source_paths, destination }), ...init });

/** Parts whose blocks all differ, so that a lost, doubled or swapped block is noticed. */
function writeParts(count: number, mib: number): { paths: string[]; sha256: string } {
  const digest = new Bun.CryptoHasher("sha256");
  const block = crypto.getRandomValues(Buffer.alloc(MIB));
  const paths = Array.from({ length: count }, (_, part) => {
    const path = `${folder}/part-${part}`;
    writeFileSync(path, "");
    for (let at = 0; at < mib; at++) {
      block.writeUInt32BE(part * mib + at);
      appendFileSync(path, block);
      digest.update(block);
    }
    return path;
  });
  return { paths, sha256: digest.digest("hex") };
}

const sha256 = async (path: string) => {
  const child = Bun.spawn(["sha256sum", path]);
  return (await new Response(child.stdout).text()).split(" ")[0];
};

// Guards against writing the destination in place, removing parts while they are copied, and keeping the temporary
// file.
test("a full disk is 507; parts and the earlier file are unchanged, and nothing is left", async () => {
  const full = `${guest.folder}/full`;
  mkdirSync(full);
  expect(Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", full]).exitCode).toBe(0);
  try {
    writeFileSync(`${full}/whole`, "earlier");
    const { paths } = writeParts(2, 2);
    const before = paths.map((path) => statSync(path).size);
    const response = await post(paths, `${full}/whole`);
    expect([response.status, ((await response.json()) as { message: string }).message]).toEqual([
      507,
      expect.stringContaining("full"),
    ]);
    expect([readdirSync(full), readFileSync(`${full}/whole`, "utf8")]).toEqual([["whole"], "earlier"]);
    expect(paths.map((path) => statSync(path).size)).toEqual(before);
    expect((await post(paths.slice(0, 1), `${full}/whole`)).status).toBe(200);
  } finally {
    Bun.spawnSync(["umount", full]);
  }
});

describe("while the parts are copied,", () => {
  const run = (copy: CopyPart, signal = new AbortController().signal) =>
    compose({ sources: [`${folder}/a`, `${folder}/b`], destination: `${folder}/whole`, owner }, signal, copy);
  /** Copies normally, and runs `act` after the first copy with content, or after a later one. */
  const interrupted = (act: () => void, copy = 1): CopyPart => {
    let copies = 0;
    return async (source, target) => {
      const length = await copyPart(source, target);
      if (length > 0 && ++copies === copy) act();
      return length;
    };
  };

  beforeEach(() => {
    for (const name of ["a", "b"]) writeFileSync(`${folder}/${name}`, name.repeat(1000));
    writeFileSync(`${folder}/whole`, "earlier");
  });

  const expectUntouched = () => {
    expect(readdirSync(folder).filter((name) => name.includes("e2b-compose"))).toEqual([]);
    expect(readFileSync(`${folder}/whole`, "utf8")).toBe("earlier");
    expect(existsSync(`${folder}/a`)).toBe(true);
  };

  // Guards against a part that changes: without the comparison after the copy, added data goes with the part and cut
  // data is missing. A part replaced by a pipe must not block the open.
  test.each([
    ["the first part grows", () => appendFileSync(`${folder}/a`, "more")],
    ["the first part is cut", () => writeFileSync(`${folder}/a`, "")],
    [
      "the second part is another file now",
      () => {
        writeFileSync(`${folder}/b2`, "2".repeat(1000));
        renameSync(`${folder}/b2`, `${folder}/b`);
      },
    ],
    [
      "the second part becomes a pipe",
      () => {
        unlinkSync(`${folder}/b`);
        Bun.spawnSync(["mkfifo", `${folder}/b`]);
      },
    ],
    ["the second part goes", () => unlinkSync(`${folder}/b`)],
  ])("%s: nothing is done", async (_what, act) => {
    await expect(run(interrupted(act))).rejects.toThrow();
    expectUntouched();
  });

  // Guards against work that goes on after the client has disconnected.
  test("the client disconnects: nothing is done", async () => {
    const client = new AbortController();
    await expect(
      run(
        interrupted(() => client.abort()),
        client.signal,
      ),
    ).rejects.toThrow();
    expectUntouched();
    expect(existsSync(`${folder}/b`)).toBe(true);
  });

  // Guards against removing a part that has changed since it was copied.
  test("a copied part is written to: it stays", async () => {
    await run(interrupted(() => appendFileSync(`${folder}/a`, "later"), 2));
    expect(readFileSync(`${folder}/whole`, "utf8")).toBe("a".repeat(1000) + "b".repeat(1000));
    expect(readFileSync(`${folder}/a`, "utf8")).toBe(`${"a".repeat(1000)}later`);
    expect(existsSync(`${folder}/b`)).toBe(false);
  });
});

test("a client that disconnects leaves no temporary file", async () => {
  const temporary = () => readdirSync(folder).filter((name) => /^whole\.e2b-compose\.[0-9a-f-]{36}\.tmp$/.test(name));
  // If the response came before the test saw the compose at work, nothing was interrupted: try again.
  for (let isAnswered = true; isAnswered; ) {
    rmSync(`${folder}/whole`, { force: true });
    const { paths } = writeParts(2, 128);
    const gone = new AbortController();
    let isOver = false;
    const answered = post(paths, `${folder}/whole`, { signal: gone.signal })
      .then(
        () => true,
        () => false,
      )
      .finally(() => {
        isOver = true;
      });
    await untilTrue(() => temporary().length === 1 || isOver);
    gone.abort();
    isAnswered = await answered;
  }
  await untilTrue(() => temporary().length === 0);
  // If the client leaves in time, nothing is done; a moment too late, all of it is.
  const isWhole = existsSync(`${folder}/whole`);
  expect(readdirSync(folder).sort()).toEqual(isWhole ? ["whole"] : ["part-0", "part-1"]);
});

// Guards against calls that block the event loop (a response took 696 ms), and a slice as large as a part (259 MiB
// more).
timed("large parts are joined in constant memory, while other requests are answered", async () => {
  const { paths, sha256: expected } = writeParts(3, LONG ? 256 : 96);
  await Bun.write(`/proc/${guest.pid}/clear_refs`, "5");
  const before = await guest.memoryKib();
  let composing = true;
  const response = post(paths, `${folder}/whole`).finally(() => {
    composing = false;
  });
  let slowest = 0;
  let requestCount = 0;
  while (composing) {
    const began = performance.now();
    expect((await guest.fetch("/health")).status).toBe(204);
    slowest = Math.max(slowest, performance.now() - began);
    requestCount++;
    await Bun.sleep(5);
  }
  expect((await response).status).toBe(200);
  expect(requestCount).toBeGreaterThan(5);
  expect(slowest).toBeLessThan(200);
  expect((await guest.memoryKib()).peak - before.now).toBeLessThan(32 * 1024);
  expect(await sha256(`${folder}/whole`)).toBe(expected);
  expect(readdirSync(folder)).toEqual(["whole"]);
});
