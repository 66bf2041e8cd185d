/** Workloads: shells with jobs, followers, timers. */
import { expect } from "bun:test";
import type { Workload } from "./workload.ts";

/** Answers each line. */
const LINES = 'while read line; do echo "got $line"; done';

export const shells: Workload[] = [
  {
    what: "a shell on a terminal, with a running and a stopped job",
    fate: "kept",
    async play(stage) {
      const shell = await stage.terminal();
      await stage.sandbox.files.write("/home/user/lines", LINES);
      await shell.ask("PS1='$ '; bash lines", /\n/);
      await shell.ask("one", /got one/);
      // Ctrl-Z.
      await shell.ask("\x1a", /Stopped/);
      await shell.ask("sleep 1000 &", /\[2\] \d+/);
      await shell.ask("cd /var; WORD=kept-$((40 + 2)); umask 027; echo now-$WORD", /now-kept-42/);
      await stage.pauseAndResume();
      const jobs = await shell.ask("jobs; echo end-$WORD-$(umask)-$PWD", /(\[1\].*)end-kept-42-0027-\/var/s);
      expect(jobs).toMatch(/\[1\]\+\s+Stopped.*\s+\[2\]-\s+Running\s+sleep 1000/);
      await shell.say("fg %1");
      await shell.ask("two", /got two/);
      // Ctrl-D ends the job, and the shell has its terminal back.
      await shell.say("\x04");
      await shell.ask("kill %2; wait %2; echo status-$?", /status-143/);
    },
  },
  {
    what: "tmux, with a program in a detached window",
    fate: "kept",
    async play(stage) {
      await stage.sandbox.files.write("/home/user/lines", LINES);
      await stage.run("LC_ALL=C.UTF-8 tmux new-session -d -x 80 -y 24 'bash lines' && tmux send-keys one Enter");
      await stage.run("until tmux capture-pane -p | grep -q 'got one'; do sleep 0.05; done");
      await stage.pauseAndResume();
      await stage.run("tmux send-keys two Enter; until tmux capture-pane -p | grep -q 'got two'; do sleep 0.05; done");
      expect(await stage.run("tmux capture-pane -p | grep got")).toBe("got one\ngot two");
    },
  },
  {
    what: "tail -f",
    fate: "kept",
    async play(stage) {
      await stage.run("echo first > log");
      const tail = await stage.command("exec tail -f log");
      await tail.hear(/first/);
      await stage.pauseAndResume();
      await stage.run("echo second >> log");
      expect(await tail.hear(/.*second/)).toBe("second");
    },
  },
  {
    what: "timers and absolute waits, with the time they had left",
    fate: "kept",
    isAlone: true,
    async play(stage) {
      const [asleep, paused, before] = [7, 3, 2];
      // The process answers on request, because no client may listen at the moment it wakes.
      const sleeper = await stage.python(
        `import sys, time; began = time.monotonic(), time.time(); print('<asleep>'); time.sleep(${asleep})\n` +
          "slept = time.monotonic() - began[0], time.time() - began[1]\nfor line in sys.stdin: print('<%f %f>' % slept)",
      );
      await sleeper.hear(/<asleep>/);
      // A wait for a duration starts again on arm64 and keeps its remaining time on x64. The clock starts once the
      // process sleeps, which may be late.
      const anew = await stage.python(
        `import subprocess, sys, time; child = subprocess.Popen(['sleep', '${asleep}'])\n` +
          "while open(f'/proc/{child.pid}/stat').read().split()[1:3] != ['(sleep)', 'S']: time.sleep(0.01)\n" +
          "began = time.monotonic(); print('<asleep>'); child.wait()\n" +
          "slept = time.monotonic() - began\nfor line in sys.stdin: print('<%f>' % slept)",
      );
      await anew.hear(/<asleep>/);
      await Bun.sleep(before * 1000);
      await stage.pauseAndResume(() => Bun.sleep(paused * 1000));
      const [slept = 0, ofTheDay = 0] = (await sleeper.ask("", /<(.*)>/)).split(" ").map(Number);
      expect(slept).toBeGreaterThanOrEqual(asleep);
      expect(slept).toBeLessThan(asleep + paused);
      expect(ofTheDay - slept).toBeGreaterThan(paused - 0.1);
      const least = process.arch === "arm64" ? before + asleep : asleep;
      expect(Number(await anew.ask("", /<(.*)>/))).toBeGreaterThanOrEqual(least);
    },
  },
];
