/** Many processes of one daemon, and what they leave behind: a hundred at once, shared tags, orphans. */
import { expect, test } from "bun:test";
import { until } from "../../base/testing/until.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { follow, nextPid, nextText, ProcessCalls, refusal, shell } from "../testing/process-calls.ts";

const guest = await guestOfFile();
const processes = new ProcessCalls(guest);

// Guards against a table of at most 64 processes.
test("a hundred processes at once each have their own input, output and end", async () => {
  const numbers = Array.from({ length: 100 }, (_, at) => at);
  const started = await Promise.all(
    numbers.map((at) => processes.start(shell(`read -r word; echo ${at} $word; exit ${at}`))),
  );
  const listed = (await (await guest.call("process.Process/List", {})).json()) as { processes: { pid: number }[] };
  expect(new Set(listed.processes.map(({ pid }) => pid))).toEqual(new Set(started.map(({ pid }) => pid)));
  await Promise.all(started.map(({ pid }, at) => processes.input(pid, `word-${at}\n`)));
  const result = await Promise.all(started.map(({ rest }) => follow(rest)));
  expect(result.map(({ stdout, end }) => [stdout, end?.exitCode ?? 0])).toEqual(
    numbers.map((at) => [`${at} word-${at}\n`, at]),
  );
});

// Guards against a search that takes the first process with the tag.
test("a tag refers to its newest process, and after its end to the previous one", async () => {
  const sleeper = { ...shell("exec sleep 300"), tag: "same" };
  const first = await processes.start(sleeper);
  await using _other = await startedAs("another");
  const second = await processes.start(sleeper);
  const meant = async () => {
    const connection = processes.connect({ tag: "same" });
    const pid = await nextPid(connection);
    await connection.return(undefined);
    return pid;
  };
  expect(await meant()).toBe(second.pid);
  await processes.kill(second.pid);
  await follow(second.rest);
  expect(await meant()).toBe(first.pid);
  await processes.kill(first.pid);
  await follow(first.rest);
  expect(await refusal(guest.call("process.Process/SendSignal", { process: { tag: "same" }, signal: 9 }))).toEqual([
    404,
    "not_found",
  ]);
});

async function startedAs(tag: string): Promise<AsyncDisposable> {
  const { pid, rest } = await processes.start({ ...shell("exec sleep 300"), tag });
  return {
    async [Symbol.asyncDispose]() {
      await processes.kill(pid);
      await follow(rest);
    },
  };
}

// Guards against a timeout that is dropped at the exit of the process itself: the end is then never reported.
test("the timeout also ends the wait for an orphan that holds the output", async () => {
  const lifetime = { "Connect-Timeout-Ms": "3000" };
  const { pid, rest } = await processes.start(shell("sleep 300 & echo $!; exit 3"), lifetime);
  const orphan = Number(await nextText(rest, "stdout"));
  expect((await follow(rest)).error?.code).toBe("deadline_exceeded");
  expect((await follow(processes.connect({ pid }))).end).toMatchObject({ exitCode: 3, exited: true });
  process.kill(orphan, "SIGKILL");
});

// Guards against closing the output once the end was reported: the orphan dies of SIGPIPE.
test("an orphan may continue to write after its parent's end was reported", async () => {
  const trace = `${guest.folder}/orphan`;
  const script = `(trap '' TERM; echo ready; while [ ! -e ${trace}.go ]; do sleep 0.05; done; echo unheard; sleep 0.1; echo unheard && echo lived > ${trace}) & wait`;
  const { pid, rest } = await processes.start(shell(script));
  expect(await nextText(rest, "stdout")).toBe("ready\n");
  await processes.kill(pid);
  expect((await follow(rest)).end).toMatchObject({ status: "signal: killed" });
  await Bun.write(`${trace}.go`, "");
  await until("it lived on", () => Bun.file(trace).exists());
});
