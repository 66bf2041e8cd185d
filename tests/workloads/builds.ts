/** Workloads: builds and other half-done work. */
import { expect } from "bun:test";
import type { Workload } from "./workload.ts";

/** The last part waits for the word to go on, so that make is still at work after the pause. */
const SOURCE = `
mkfifo go-on
for part in 1 2 3; do
  for i in $(seq 300); do
    echo "int f_\${part}_$i(int x) { for (int k = 0; k < x; k++) x = x * $i + (x >> k) ^ k; return x + $i; }"
  done > part$part.c
done
cat > main.c <<END
#include <stdio.h>
int f_1_300(int); int f_2_300(int); int f_3_300(int);
int main(void) { printf("%d\\n", f_1_300(0) + f_2_300(0) + f_3_300(0)); }
END
printf 'program: main.o part1.o part2.o part3.o\\n\\tcc -o $@ $^\\npart3.o: part3.c\\n\\tread word < go-on; cc -O2 -c $<\\nCFLAGS=-O2\\n' > Makefile
`;

/** Sends the first part of a clone, and the rest when a process writes to the pipe. */
const HALTING_UPLOAD = `#!/bin/bash
git-upload-pack "$@" | { dd bs=64k count=20 status=none; touch /tmp/half-way; read < /tmp/go-on; cat; }
`;

export const builds: Workload[] = [
  {
    what: "a compile in progress",
    fate: "kept",
    async play(stage) {
      await stage.run(SOURCE);
      const make = await stage.command("exec make -j2 program");
      await stage.run("until test -s main.o && pgrep -x cc1; do sleep 0.01; done");
      await stage.pauseAndResume();
      // Between two files there is no compiler for a moment.
      expect(await stage.run("pgrep -x make > /dev/null && test ! -e program && echo in progress")).toBe("in progress");
      await stage.run("echo > go-on");
      expect(await make.ended()).toBe(0);
      expect(await stage.run("./program")).toBe("900");
    },
  },
  {
    what: "git in the middle of a clone",
    fate: "kept",
    async play(stage) {
      await stage.sandbox.files.write("/tmp/upload", HALTING_UPLOAD);
      await stage.run(
        "chmod +x /tmp/upload; mkfifo /tmp/go-on; git init -q -b main source && cd source && head -c 4000000 /dev/urandom > big" +
          " && git add . && git -c user.name=a -c user.email=a@b.c commit -q -m first",
      );
      const clone = await stage.command("exec git clone -q -u /tmp/upload file:///home/user/source copy");
      await stage.run("until test -e /tmp/half-way && pgrep -f index-pack; do sleep 0.05; done");
      await stage.pauseAndResume();
      await stage.run("echo > /tmp/go-on");
      expect(await clone.ended()).toBe(0);
      expect(await stage.run("cd copy && git fsck --strict && cmp big ../source/big && git status --short")).toBe("");
    },
  },
];
