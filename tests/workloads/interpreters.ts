/** Workloads: interpreters, which keep their whole state in variables. */
import { expect } from "bun:test";
import type { Workload } from "./workload.ts";

const KERNEL_FILE = "/tmp/kernel.json";
const NOISE = "import random; word = '%032x' % random.SystemRandom().getrandbits(128)";

/** Executes each line in the kernel, and prints the result or the error. */
const KERNEL_CLIENT = `
import sys
from jupyter_client import BlockingKernelClient
client = BlockingKernelClient(connection_file="${KERNEL_FILE}")
client.load_connection_file()
client.start_channels()
client.wait_for_ready(timeout=80)
print("<ready>")
def show(message):
    content = message["content"]
    if message["msg_type"] == "execute_result": print("<" + content["data"]["text/plain"] + ">")
    if message["msg_type"] == "error": print("<" + content["ename"] + ">")
for line in sys.stdin:
    client.execute_interactive(line.strip(), timeout=80, output_hook=show)
`;

export const interpreters: Workload[] = [
  {
    what: "a Python REPL on a terminal, with numpy loaded",
    fate: "kept",
    async play(stage) {
      const repl = await stage.terminal();
      await repl.ask("PYTHON_BASIC_REPL=1 python3 -q", />>> /);
      await repl.ask("import numpy as np", />>> /);
      await repl.ask("rng = np.random.default_rng(); a = rng.standard_normal((500, 500)); b = a @ a.T", />>> /);
      const digest = "import hashlib; print('<' + hashlib.sha256(a.tobytes() + b.tobytes()).hexdigest() + '>')";
      const before = await repl.ask(digest, /<([0-9a-f]{64})>/);
      await repl.ask(
        "state = rng.bit_generator.state; ahead = rng.random(4); rng.bit_generator.state = state",
        />>> .*>>> /s,
      );
      await stage.pauseAndResume();
      expect(await repl.ask(digest, /<([0-9a-f]{64})>/)).toBe(before);
      expect(await repl.ask("print('<%s>' % (a @ a.T == b).all())", /<(True|False)>/)).toBe("True");
      expect(await repl.ask("print('<%s>' % (rng.random(4) == ahead).all())", /<(True|False)>/)).toBe("True");
    },
  },
  {
    what: "a Node REPL",
    fate: "kept",
    async play(stage) {
      const repl = await stage.command("exec node -i");
      await repl.ask(
        "const word = require('crypto').randomUUID(); let ticks = 0; setInterval(() => ticks++, 5); ''",
        /> /,
      );
      const word = await repl.ask("'<' + word + '>'", /<([0-9a-f-]{36})>/);
      await stage.pauseAndResume();
      expect(await repl.ask("'<' + word + '>'", /<([0-9a-f-]{36})>/)).toBe(word);
      const ticks = Number(await repl.ask("'<' + ticks + '>'", /<(\d+)>/));
      await repl.ask(
        `const t = setInterval(() => { if (ticks > ${ticks}) { clearInterval(t); console.log("<on>") } }, 1); ''`,
        /<on>/,
      );
    },
  },
  {
    what: "a Jupyter kernel, with the client that talks to it",
    fate: "kept",
    async play(stage) {
      await stage.command(`exec python3 -m ipykernel_launcher -f ${KERNEL_FILE}`);
      await stage.run(`until test -s ${KERNEL_FILE}; do sleep 0.05; done`);
      const client = await stage.python(KERNEL_CLIENT);
      await client.hear(/<ready>/);
      await client.say(NOISE);
      await client.say("import numpy as np; a = np.arange(10)");
      const word = await client.ask("word", /<'([0-9a-f]{32})'>/);
      await stage.pauseAndResume();
      expect(await client.ask("word", /<'([0-9a-f]{32})'>/)).toBe(word);
      expect(await client.ask("int(a.sum()) + 1", /<(.*)>/)).toBe("46");
      const newcomer = await stage.python(KERNEL_CLIENT);
      await newcomer.hear(/<ready>/);
      expect(await newcomer.ask("word", /<'([0-9a-f]{32})'>/)).toBe(word);
    },
  },
];
