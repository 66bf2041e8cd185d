/** What the guest keeps for the sandbox's log, and how it reaches the host. */
import { describe, expect, test } from "bun:test";
import { CONTROL_SECRET_HEADER, type JournalMessage } from "../../contract/runtime/guest-control.ts";
import { JOURNAL_LINE_MAX_BYTES } from "../../contract/runtime/limits.ts";
import { RunningGuest, SECRET } from "../testing/running-guest.ts";
import { JOURNAL_KEPT_MAX_BYTES, Journal } from "./journal.ts";

interface Heard {
  journal?: string;
  seq?: number;
  dropped?: number;
  level?: string;
  logger?: string;
  message?: string;
  fields?: Record<string, string>;
}

/** Reads messages until `enough` says so, then hangs up. */
async function hear(stream: ReadableStream<Uint8Array>, enough: (received: Heard[]) => boolean): Promise<Heard[]> {
  const received: Heard[] = [];
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    received.push(...lines.map((line) => JSON.parse(line) as JournalMessage));
    if (enough(received)) break;
  }
  return received;
}

const atLeast = (count: number) => (received: Heard[]) => received.length >= count;

describe("a journal", () => {
  test("sends earlier and new entries in order, numbered", async () => {
    const journal = new Journal();
    journal.note("process", "info", "one", { pid: 7, tag: undefined });
    const listening = hear(journal.listen("", 0), atLeast(3));
    await Bun.sleep(0);
    journal.note("process", "warn", "two");
    const [greeting, one, two] = await listening;
    expect(greeting).toEqual({ journal: journal.name });
    expect(one).toMatchObject({ seq: 1, level: "info", logger: "process", message: "one", fields: { pid: "7" } });
    expect(two).toMatchObject({ seq: 2, level: "warn", message: "two", fields: {} });
  });

  test("continues after the host's number, unless the host knows another journal", async () => {
    const journal = new Journal();
    for (const message of ["one", "two", "three"]) journal.note("x", "info", message);
    const known = await hear(journal.listen(journal.name, 2), atLeast(2));
    expect(known.map(({ message }) => message)).toEqual([undefined, "three"]);
    const another = await hear(journal.listen("another", 2), atLeast(4));
    expect(another.map(({ seq }) => seq)).toEqual([undefined, 1, 2, 3]);
    const beyond = await hear(journal.listen(journal.name, 99), atLeast(4));
    expect(beyond.map(({ seq }) => seq)).toEqual([undefined, 1, 2, 3]);
  });

  test("keeps a bounded number of bytes, drops the oldest, and reports their number", async () => {
    const journal = new Journal(10_000);
    for (let nth = 0; nth < 500; nth++) journal.note("x", "info", `line ${nth}`, { text: "é".repeat(100) });
    const received = await hear(journal.listen(journal.name, 3), (all) => all.at(-1)?.seq === 500);
    const [, gap, ...entries] = received;
    expect(gap?.dropped).toBeGreaterThan(400);
    expect(gap?.seq).toBe(3 + (gap?.dropped ?? 0));
    expect(entries[0]?.seq).toBe((gap?.seq ?? 0) + 1);
    expect(Buffer.byteLength(entries.map((entry) => JSON.stringify(entry)).join("\n"))).toBeLessThanOrEqual(10_000);
  });

  test("truncates long texts, so that no line is too long for the host", async () => {
    const journal = new Journal();
    journal.note("x", "info", "m".repeat(100_000), { text: "t".repeat(100_000) });
    journal.note(
      "x",
      "info",
      "\u0000".repeat(5000),
      Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`f${n}`, "\u0001".repeat(5000)])),
    );
    const [, long, escaped] = await hear(journal.listen("", 0), atLeast(3));
    expect(long?.message).toEndWith("…");
    expect(long?.fields?.text?.length).toBeLessThan(2000);
    expect(escaped?.fields).toEqual({ shortened: "true" });
    expect(Buffer.byteLength(JSON.stringify(escaped))).toBeLessThan(JOURNAL_LINE_MAX_BYTES);
  });

  test("ends the stream of a listener when another one comes", async () => {
    const journal = new Journal();
    const first = hear(journal.listen("", 0), () => false);
    const second = hear(journal.listen("", 0), atLeast(2));
    journal.note("x", "info", "for the second");
    expect((await second)[1]?.message).toBe("for the second");
    expect((await first).map(({ message }) => message)).toEqual([undefined]);
  });

  test("starts again without any trace of earlier entries", async () => {
    const journal = new Journal();
    journal.note("x", "info", "of another life");
    const { name } = journal;
    journal.beginAnew();
    expect(journal.name).not.toBe(name);
    journal.note("x", "info", "of this one");
    expect((await hear(journal.listen(journal.name, 0), atLeast(2))).slice(1).map(({ message }) => message)).toEqual([
      "of this one",
    ]);
  });

  test("holds no more than its bound for a listener that reads nothing", async () => {
    const journal = new Journal();
    const stream = journal.listen("", 0);
    for (let nth = 0; nth < 5000; nth++) journal.note("x", "info", `line ${nth}`, { text: "t".repeat(500) });
    const [, gap, ...entries] = await hear(stream, (all) => all.at(-1)?.seq === 5000);
    expect(gap?.dropped).toBe(5000 - entries.length);
    const heardBytes = entries.reduce((sum, entry) => sum + Buffer.byteLength(JSON.stringify(entry)) + 1, 0);
    expect(heardBytes).toBeGreaterThan(JOURNAL_KEPT_MAX_BYTES / 2);
    expect(heardBytes).toBeLessThanOrEqual(JOURNAL_KEPT_MAX_BYTES);
  });
});

describe("a guest", () => {
  function listen(guest: RunningGuest, query = ""): Promise<Response> {
    return guest.fetch(`/control/journal${query}`, { headers: { [CONTROL_SECRET_HEADER]: SECRET } });
  }

  async function heardBy(guest: RunningGuest, enough: (received: Heard[]) => boolean): Promise<Heard[]> {
    const response = await listen(guest);
    expect(response.status).toBe(200);
    return hear(response.body as ReadableStream<Uint8Array>, enough);
  }

  const ended = (count: number) => (received: Heard[]) =>
    received.filter(({ fields }) => fields?.event_type === "process_end").length >= count;

  async function run(guest: RunningGuest, message: object): Promise<void> {
    for await (const _ of guest.stream("process.Process/Start", message));
  }

  test("records the start and end of a process, and only the size of its output", async () => {
    await using guest = await RunningGuest.start();
    await guest.configure({ envVars: { SECRET_A: "value-of-a" }, accessTokens: [] });
    await run(guest, {
      process: {
        cmd: "/bin/sh",
        args: ["-c", "printf hidden-out; printf hidden-err >&2; exit 3"],
        envs: { B: "value-of-b" },
        cwd: "/tmp",
      },
      tag: "mine",
      stdin: false,
    });
    const received = await heardBy(guest, ended(1));
    const [, start, end] = received;
    expect(start).toMatchObject({ level: "info", logger: "process", message: "Process started" });
    expect(start?.fields).toMatchObject({ event_type: "process_start", cwd: "/tmp", user: "root", tag: "mine" });
    expect(start?.fields?.command).toStartWith("/bin/sh -c printf");
    expect(end?.fields).toMatchObject({
      event_type: "process_end",
      exit_code: "3",
      stdout_bytes: "10",
      stderr_bytes: "10",
      stdin_bytes: "0",
    });
    expect(end?.fields?.pid).toBe(start?.fields?.pid);
    expect(JSON.stringify(received)).not.toMatch(/value-of-[ab]/);
    expect(JSON.stringify(end?.fields).replace(end?.fields?.command ?? "", "")).not.toContain("hidden");
  });

  test("records a process that could not be started", async () => {
    await using guest = await RunningGuest.start();
    await guest.configure({});
    await run(guest, { process: { cmd: "/bin/true", cwd: "/nowhere" } });
    const [, failed] = await heardBy(guest, atLeast(2));
    expect(failed).toMatchObject({
      level: "warn",
      fields: { event_type: "process_start_failed", command: "/bin/true" },
    });
    expect(failed?.fields?.error).toContain("/nowhere");
  });

  test("records file operations", async () => {
    await using guest = await RunningGuest.start();
    await guest.configure({ accessTokens: ["token-of-mine"] });
    const token = { "X-Access-Token": "token-of-mine" };
    const base = `${guest.folder}/files`;
    const part = (name: string) => encodeURIComponent(`${base}/${name}`);
    for (const name of ["a", "b"]) {
      await guest.fetch(`/files?path=${part(name)}`, {
        method: "POST",
        headers: { "Content-Type": "application/octet-stream", ...token },
        body: "secret content",
      });
    }
    await (await guest.fetch(`/files?path=${part("a")}`, { headers: token })).text();
    await guest.fetch(`/files?path=${part("missing")}`, { headers: token });
    await guest.fetch("/files/compose", {
      method: "POST",
      headers: token,
      body: JSON.stringify({ source_paths: [`${base}/a`, `${base}/b`], destination: `${base}/c` }),
    });
    await guest.call("filesystem.Filesystem/MakeDir", { path: `${base}/d` }, token);
    await guest.call("filesystem.Filesystem/Move", { source: `${base}/c`, destination: `${base}/d/c` }, token);
    const request = { "X-Request-Id": "mine" };
    await guest.call("filesystem.Filesystem/Remove", { path: `${base}/d` }, { ...token, ...request });
    const received = (await heardBy(guest, atLeast(9))).slice(1);
    expect(received.map(({ level, fields }) => `${level} ${fields?.operation}`)).toEqual([
      "info upload",
      "info upload",
      "info download",
      "warn download",
      "info compose",
      "info make directory",
      "info move",
      "info remove",
    ]);
    expect(received[0]?.fields).toMatchObject({
      event_type: "file_processing",
      path: `${base}/a`,
      files: "1",
      user: "root",
    });
    expect(received[6]?.fields).toMatchObject({ path: `${base}/c`, destination: `${base}/d/c` });
    expect(received.map(({ fields }) => fields?.request_id).filter(Boolean)).toEqual(["mine"]);
    expect(JSON.stringify(received)).not.toContain("secret content");
    expect(JSON.stringify(received)).not.toContain("token-of-mine");
  });

  test("reports nothing from before the sandbox was handed out", async () => {
    await using guest = await RunningGuest.start();
    await run(guest, { process: { cmd: "/bin/echo", args: ["rehearsal"] } });
    await guest.configure({});
    await run(guest, { process: { cmd: "/bin/echo", args: ["for real"] } });
    const received = await heardBy(guest, ended(1));
    expect(JSON.stringify(received)).not.toContain("rehearsal");
    await guest.configure({ accessTokens: [] });
    expect(JSON.stringify(await heardBy(guest, ended(1)))).toContain("for real");
  });

  test("that restarted has a new journal, which says so", async () => {
    await using guest = await RunningGuest.start();
    await guest.configure({});
    const [before] = await heardBy(guest, atLeast(1));
    await guest.respawn();
    const [greeting, again] = await heardBy(guest, atLeast(2));
    expect(greeting?.journal).not.toBe(before?.journal);
    expect(again).toMatchObject({ logger: "runtime", level: "warn", message: "The runtime was started again" });
  });
});
