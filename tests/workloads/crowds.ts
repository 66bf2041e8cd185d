/** Workloads: large amounts of memory, threads and processes. */
import { expect } from "bun:test";
import { LONG } from "../../src/base/testing/long.ts";
import type { Workload } from "./workload.ts";

const THREADS = 500;
const PROCESSES = 200;

export const crowds: Workload[] = [
  {
    what: "a process with 1 GiB of memory",
    sample: "128 MiB",
    fate: "kept",
    async play(stage) {
      const program = `
import hashlib, numpy as np, sys
memory = np.random.default_rng().bytes(${LONG ? 2 ** 30 : 2 ** 27})
for line in sys.stdin: print("<%s>" % hashlib.blake2b(memory).hexdigest())
`;
      const holder = await stage.python(program);
      const before = await holder.ask("", /<(\w+)>/);
      await stage.pauseAndResume();
      expect(await holder.ask("", /<(\w+)>/)).toBe(before);
    },
  },
  {
    what: `${THREADS} threads`,
    fate: "kept",
    async play(stage) {
      const program = `
import os, queue, sys, threading
questions, answers = [queue.Queue() for _ in range(${THREADS})], queue.Queue()
def work(at):
    word = os.urandom(8).hex(); answered = 0
    while True:
        questions[at].get(); answered += 1; answers.put((at, word, answered))
for at in range(${THREADS}): threading.Thread(target=work, args=(at,), daemon=True).start()
first = {}
for line in sys.stdin:
    for q in questions: q.put(1)
    same = counts = 0
    for _ in questions:
        at, word, answered = answers.get()
        same += first.setdefault(at, word) == word; counts += answered
    print("<%d %d>" % (same, counts))
`;
      const crowd = await stage.python(program);
      expect(await crowd.ask("", /<(.*)>/)).toBe(`${THREADS} ${THREADS}`);
      await stage.pauseAndResume();
      expect(await crowd.ask("", /<(.*)>/)).toBe(`${THREADS} ${2 * THREADS}`);
    },
  },
  {
    what: `${PROCESSES} processes on pipes`,
    fate: "kept",
    async play(stage) {
      const program = `
import subprocess, sys
counter = "count=0; while read line; do count=$((count + 1)); echo $count; done"
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
children = [subprocess.Popen(["sh", "-c", counter], **pipes) for _ in range(${PROCESSES})]
for line in sys.stdin:
    for child in children: child.stdin.write("?\\n"); child.stdin.flush()
    print("<%d>" % sum(int(child.stdout.readline()) for child in children))
`;
      const crowd = await stage.python(program);
      expect(await crowd.ask("", /<(.*)>/)).toBe(String(PROCESSES));
      await stage.pauseAndResume();
      expect(await crowd.ask("", /<(.*)>/)).toBe(String(2 * PROCESSES));
    },
  },
  {
    what: "a Python multiprocessing pool",
    fate: "kept",
    async play(stage) {
      const program = `
import multiprocessing, os, sys
count = 0
def work(x):
    global count
    count += 1
    return os.getpid(), count, x * x
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(4) as pool:
        calls = multiprocessing.Value("i", 0)
        highest = {}
        for line in sys.stdin:
            with calls.get_lock(): calls.value += 1
            done = pool.map(work, range(64), chunksize=1)
            for pid, c, _ in done: highest[pid] = max(c, highest.get(pid, 0))
            print("<%d %d %d>" % (calls.value, sum(highest.values()), sum(s for _, _, s in done)))
`;
      const pool = await stage.python(program);
      const squares = (64 * 63 * 127) / 6;
      expect(await pool.ask("", /<(.*)>/)).toBe(`1 64 ${squares}`);
      await stage.pauseAndResume();
      expect(await pool.ask("", /<2 (\d+ \d+)>/)).toBe(`128 ${squares}`);
    },
  },
];
