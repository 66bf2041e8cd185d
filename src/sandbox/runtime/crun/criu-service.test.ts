/** The CRIU service, played by a program that forks as it does. */
import { afterEach, beforeEach, expect, spyOn, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { untilTrue } from "../../../base/testing/until.ts";
import { CriuService } from "./criu-service.ts";
import { PLAYED_SERVICE } from "./testing/played-service.ts";
import { talkTo } from "./testing/talk.ts";

const PROGRAM = join(import.meta.dir, "testing/service-program.ts");

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandlot-service-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const played = (program = PLAYED_SERVICE) =>
  new CriuService({
    command: ["python3", "-c", program],
    before: "",
    folder: join(folder, "sockets"),
    name: "played",
    programs: folder,
  });

function madeFolder(name: string): string {
  mkdirSync(join(folder, name));
  return join(folder, name);
}

test("each who connects has one of its own, which is found by the folder that it works in", async () => {
  const service = played();
  const [here, there] = [madeFolder("here"), madeFolder("there")];
  const both = await Promise.all([service.connect(), service.connect()]);
  const [first, second] = await Promise.all(both.map(({ fd }) => talkTo(fd)));
  expect(() => both[0]?.pidIn(here)).toThrow("no CRIU is at work");
  const pids = [await first?.ask(here), await second?.ask(there)];
  expect(both.map(({ pidIn }) => [String(pidIn(here)), String(pidIn(there))])).toEqual([pids, pids] as string[][]);
  first?.end();
  await untilTrue(() => !existsSync(`/proc/${pids[0]}`));
  expect(() => both[0]?.pidIn(here)).toThrow("no CRIU is at work");
  expect(String(both[0]?.pidIn(there))).toBe(pids[1] ?? "");
  second?.end();
});

test("nobody but root and the server reaches its socket, to which everybody may write", async () => {
  (await talkTo((await played().connect()).fd)).end();
  expect(statSync(join(folder, "sockets")).mode & 0o777).toBe(0o700);
});

test("one that was killed is started again, and those that it had forked go on", async () => {
  const service = played();
  const [before, after] = [madeFolder("before"), madeFolder("after")];
  const one = await service.connect();
  const talk = await talkTo(one.fd);
  const worker = await talk.ask(before);
  const killed = parentOf(worker);
  process.kill(killed, "SIGKILL");
  await untilTrue(() => !existsSync(`/proc/${killed}`));
  const other = await service.connect();
  const next = await talkTo(other.fd);
  expect(await next.ask(after)).toBe(String(other.pidIn(after)));
  expect(existsSync(`/proc/${worker}`)).toBe(true);
  talk.end();
  next.end();
});

test("who finds too many waiting for it waits, too, and takes it away from nobody", async () => {
  const service = played(PLAYED_SERVICE.replace("lobby.listen()", "lobby.listen(2)"));
  const first = await talkTo((await service.connect()).fd);
  const busy = parentOf(await first.ask(madeFolder("first")));
  process.kill(busy, "SIGSTOP");
  const connections = Array.from({ length: 8 }, () => service.connect());
  await Bun.sleep(50);
  process.kill(busy, "SIGCONT");
  for (const [nth, { fd }] of (await Promise.all(connections)).entries()) {
    const talk = await talkTo(fd);
    expect(parentOf(await talk.ask(madeFolder(`nth ${nth}`)))).toBe(busy);
    talk.end();
  }
  first.end();
});

test("those who meet one that takes nothing any more, one after the other, all get the same new one", async () => {
  const service = played();
  (await talkTo((await service.connect()).fd)).end();
  rmSync(join(folder, "sockets", "played"));
  const connections: ReturnType<CriuService["connect"]>[] = [];
  for (let nth = 0; nth < 4; nth++) {
    connections.push(service.connect());
    for (let turns = 0; turns < 5; turns++) await Promise.resolve();
  }
  const parents = new Set<number>();
  for (const [nth, { fd }] of (await Promise.all(connections)).entries()) {
    const talk = await talkTo(fd);
    parents.add(parentOf(await talk.ask(madeFolder(`after ${nth}`))));
    talk.end();
  }
  expect(parents.size).toBe(1);
});

test("one that cannot be started is an error for who asked, and is tried again for the next", async () => {
  const service = played();
  const spawn = spyOn(Bun, "spawn").mockImplementationOnce(() => {
    throw Object.assign(new Error("no more processes"), { code: "EAGAIN" });
  });
  try {
    await expect(service.connect()).rejects.toThrow("could not be started");
    (await talkTo((await service.connect()).fd)).end();
  } finally {
    spawn.mockRestore();
  }
});

test("one that ends at once is an error, for each who comes", async () => {
  const service = played("raise SystemExit(1)");
  for (let tries = 0; tries < 2; tries++) await expect(service.connect()).rejects.toThrow("ended before");
});

test("CRIU's service ends with its server", async () => {
  const starter = Bun.spawn([process.execPath, PROGRAM, folder], { stdout: "pipe" });
  const { value } = await starter.stdout.getReader().read();
  const service = Number(new TextDecoder().decode(value));
  expect(existsSync(`/proc/${service}`)).toBe(true);
  starter.kill("SIGKILL");
  await untilTrue(() => !existsSync(`/proc/${service}`));
});

function parentOf(pid: string): number {
  return Number(/^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
}
