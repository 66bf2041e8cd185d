/** The Connect protocol on a real daemon: both encodings, and the answers to requests that break its rules. */
import { describe, expect, test } from "bun:test";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { Filesystem, FileType } from "../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { Process, Signal } from "../../contract/runtime/wire/process/process_pb.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { envelopes } from "../testing/running-guest.ts";

const guest = await guestOfFile();

describe("the binary encoding", () => {
  test("runs, feeds and kills processes", async () => {
    const client = createClient(Process, guest.binaryTransport());
    const kinds: string[] = [];
    let output = "";
    let exit: number | undefined;
    for await (const { event } of client.start({ process: { cmd: "/bin/cat" }, tag: "binary", stdin: true })) {
      const news = event?.event;
      kinds.push(news?.case ?? "");
      if (news?.case === "start") {
        const process = { selector: { case: "pid", value: news.value.pid } } as const;
        await client.sendInput({ process, input: { input: { case: "stdin", value: Buffer.from("through") } } });
        expect((await client.list({})).processes.map(({ tag }) => tag)).toEqual(["binary"]);
      }
      if (news?.case === "data") {
        output += Buffer.from(news.value.output.value ?? []).toString();
        await client.sendSignal({ process: { selector: { case: "tag", value: "binary" } }, signal: Signal.SIGKILL });
      }
      if (news?.case === "end") exit = news.value.exitCode;
    }
    expect([kinds, output, exit]).toEqual([["start", "data", "end"], "through", -1]);
  });

  test("carries 64-bit sizes and errors", async () => {
    const client = createClient(Filesystem, guest.binaryTransport());
    const { entry } = await client.stat({ path: "/etc/passwd" });
    expect(entry).toMatchObject({ type: FileType.FILE, size: BigInt(Bun.file("/etc/passwd").size) });
    const missing = await client.stat({ path: "/none" }).catch((thrown: unknown) => ConnectError.from(thrown).code);
    expect(missing).toBe(Code.NotFound);
  });

  test("accepts an empty body as an empty message", async () => {
    const answer = await guest.fetch("/process.Process/List", {
      method: "POST",
      headers: { "Content-Type": "application/proto" },
    });
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/proto"]);
  });
});

describe("a request that breaks the rules", () => {
  const post = (path: string, type: string, headers: Record<string, string> = {}, body: BodyInit = "{}") =>
    guest.fetch(path, { method: "POST", headers: { "Content-Type": type, ...headers }, body });

  test.each([
    ["/process.Process/List", "text/plain", "application/json, application/proto"],
    ["/process.Process/List", "application/connect+json", "application/json, application/proto"],
    ["/process.Process/List", "application/grpc", "application/json, application/proto"],
    ["/process.Process/Start", "application/json", "application/connect+json, application/connect+proto"],
    ["/process.Process/Start", "application/grpc-web", "application/connect+json, application/connect+proto"],
  ])("%s as %s is 415", async (path, type, accepted) => {
    const answer = await post(path, type);
    expect([answer.status, answer.headers.get("accept-post"), await answer.text()]).toEqual([415, accepted, ""]);
  });

  test("JSON may name its character set and hold unknown fields", async () => {
    const answer = await post("/process.Process/List", "application/json; charset=utf-8", {}, '{"unknown":1}');
    expect([answer.status, await answer.json()]).toEqual([200, {}]);
  });

  const code = async (answer: Response) => [answer.status, ((await answer.json()) as { code: string }).code];

  test("in its headers", async () => {
    const list = (headers: Record<string, string>) => post("/process.Process/List", "application/json", headers);
    expect(await code(await list({ "Connect-Protocol-Version": "2" }))).toEqual([400, "invalid_argument"]);
    expect((await list({ "Connect-Protocol-Version": "1" })).status).toBe(200);
    expect(await code(await list({ "Connect-Timeout-Ms": "1e3" }))).toEqual([400, "invalid_argument"]);
    expect(await code(await list({ "Connect-Timeout-Ms": "12345678901" }))).toEqual([400, "invalid_argument"]);
    expect(await code(await list({ "Content-Encoding": "snappy" }))).toEqual([501, "unimplemented"]);
  });

  test("in its body", async () => {
    expect(await code(await post("/process.Process/List", "application/json", {}, "{"))).toEqual([
      400,
      "invalid_argument",
    ]);
    const broken = new Uint8Array([0, 0, 0, 0, 1, 0x7b]);
    const stream = await post("/process.Process/Start", "application/connect+json", {}, broken);
    expect([stream.status, stream.headers.get("content-type")]).toEqual([200, "application/connect+json"]);
    const events = [];
    if (stream.body) for await (const event of envelopes(stream.body)) events.push(event);
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({ end: true, json: { error: { code: "invalid_argument" } } });
  });
});

test("a message beyond the bound is refused before it is received", async () => {
  const huge = new Uint8Array([0, 0xff, 0xff, 0xff, 0xff]);
  const headers = { "Content-Type": "application/connect+proto" };
  const answer = await guest.fetch("/process.Process/Start", { method: "POST", headers, body: huge });
  expect(await answer.text()).toContain("resource_exhausted");
});

test("a stream that fails before its first message is still 200, with the error at its end", async () => {
  const stream = guest.stream("process.Process/Connect", { process: { pid: 4_000_000 } });
  expect((await stream.next()).value).toMatchObject({ end: true, json: { error: { code: "not_found" } } });
  await stream.return(undefined);
});
