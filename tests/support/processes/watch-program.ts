/**
 * Searches the arguments and the environment of every process of the machine, again and again, for texts that must not
 * be there. The texts come on standard input, one per line, so that they are not in this program's own arguments.
 * Prints each place that has one, once, as a line of JSON, and "looked" after every full pass.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

const reader = Bun.stdin.stream().getReader();
const texts: string[] = [];
const found = new Set<string>();
let rest = "";

/** New ones may come at any time. */
async function hear(): Promise<void> {
  for (;;) {
    const { value, done } = await reader.read();
    if (done) process.exit(0);
    const lines = (rest + new TextDecoder().decode(value)).split("\n");
    rest = lines.pop() ?? "";
    texts.push(...lines.filter((line) => line !== ""));
  }
}

/** Undefined: it is gone, or it is the kernel's. */
function read(pid: string, name: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "latin1");
  } catch {
    return undefined;
  }
}

/** Which namespace of pids it is in; all of a sandbox are in one of their own. */
function pidsOf(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`);
  } catch {
    return undefined;
  }
}

const own = pidsOf("self");

function look(): void {
  for (const pid of readdirSync("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const pids = pidsOf(pid);
    const command = read(pid, "cmdline");
    const environ = read(pid, "environ");
    // A process that is just being started is looked at again.
    if (pids === undefined || command === undefined || environ === undefined || command !== read(pid, "cmdline"))
      continue;
    for (const [where, content] of Object.entries({ cmdline: command, environ })) {
      for (const text of texts) {
        const place = `${pid} ${where} ${text}`;
        if (!content.includes(text) || found.has(place)) continue;
        found.add(place);
        const reported = { pid: Number(pid), where, text, command: command.replaceAll("\0", " ").trim() };
        console.log(JSON.stringify({ ...reported, nested: pids !== own }));
      }
    }
  }
}

void hear();
for (;;) {
  look();
  console.log("looked");
  await Bun.sleep(5);
}
