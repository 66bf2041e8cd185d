import { expect, test } from "bun:test";
import { Seed } from "./seed.ts";

/** Starts `sleep` for every request, as the seed of Python forks kernels, and ends them with itself. */
const SEED = `
const { spawn } = require("child_process");
const say = (message) => process.stdout.write(JSON.stringify(message) + "\\n");
const all = [];
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { for: number, argv } = JSON.parse(line);
  if (argv.includes("full")) return say({ for: number, fault: "Cannot allocate memory" });
  if (argv.includes("forge")) return process.stdout.write("{\\n");
  const child = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
  child.on("exit", () => say({ ended: child.pid }));
  all.push(child);
  say({ for: number, pid: child.pid });
}).on("close", () => process.exit());
process.on("exit", () => all.forEach((child) => child.kill()));
`;

test("each kernel is its own process, and its end is reported", async () => {
  const seed = new Seed(["node", "-e", SEED], {});
  const [first, second] = await Promise.all([seed.fork(["-f", "one"], "/tmp"), seed.fork(["-f", "two"], "/tmp")]);
  expect(first.pid).not.toBe(second.pid);
  first.signal("SIGKILL");
  await first.ended;
  await expect(seed.fork(["full"], "/tmp")).rejects.toThrow("Cannot allocate memory");
  expect(seed.hasEnded).toBeFalse();
  second.signal("SIGKILL");
  await second.ended;
});

test("an ended seed process rejects requests", async () => {
  const broken = new Seed(["sh", "-c", "read -r line; echo 'no module named pandas' >&2"], {});
  await expect(broken.fork([], "/tmp")).rejects.toThrow(/it has ended; .* wrote: no module named pandas\n$/);
  expect(broken.hasEnded).toBeTrue();
  await expect(broken.fork([], "/tmp")).rejects.toThrow("it has ended");
});

test("a seed process that ends before it has read a request rejects it", async () => {
  const gone = new Seed(["true"], {});
  await expect(gone.fork([], "/tmp")).rejects.toThrow("it has ended");
});

test("invalid lines end the seed process and its kernels", async () => {
  const seed = new Seed(["node", "-e", SEED], {});
  const kernel = await seed.fork([], "/tmp");
  await expect(seed.fork(["forge"], "/tmp")).rejects.toThrow("it has ended");
  await kernel.ended;
  // As its own seed would have had it ended.
  process.kill(kernel.pid, "SIGKILL");
});
