/**
 * The image of Containerfile, run with podman as docs/install.md says. In long runs only: making it takes minutes.
 */
import { expect, test } from "bun:test";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { LONG } from "../../../src/base/testing/long.ts";
import { attempt, run } from "../../../src/system/command.ts";
import { addressOf } from "../../support/banner-of-server.ts";
import { IMAGE, podman, podmanMachine } from "../../support/container-image.ts";
import { runWithSdk } from "../../support/programs/sdk-program.ts";
import { newDataFolder } from "../../support/server.ts";
import type { StockMachine } from "../../support/stock-machine.ts";

const NAME = "sandlot";
const PORT = 3000;
const STOP_S = 60;
const KILLED = 128 + 9;
const CALL_MS = 90_000;
const TEST_MS = 600_000;

test.skipIf(!LONG)(
  "a container runs sandboxes, and the next one on its volume resumes those that were paused",
  async () => {
    const folder = newDataFolder("container");
    const volume = join(folder, "volume");
    mkdirSync(volume, { recursive: true });
    await using machine = await podmanMachine(folder, [volume]);
    const podmanSays = (...args: string[]) => attempt(machine.enter(podman(...args)), { timeoutMs: CALL_MS });

    await using _ended = {
      [Symbol.asyncDispose]: async () => void (await podmanSays("rm", "--force", "--time=0", NAME)),
    };

    const refused = await podmanSays("run", "--rm", IMAGE);
    expect([refused.exitCode, refused.stderr]).toEqual([1, expect.stringContaining("FIX: run it with --privileged")]);

    const first = await start(machine, volume);
    const made = await runWithSdk(async ({ Sandbox }) => {
      const [paused, running] = [await Sandbox.create(), await Sandbox.create()];
      await paused.commands.run("sleep 1000", { background: true });
      const { stdout } = await paused.commands.run("whoami; pgrep -x sleep");
      await paused.pause();
      return { stdout, paused: paused.sandboxId, running: running.sandboxId };
    }, first.client);
    expect(made.stdout).toMatch(/^user\n\d+\n$/);
    const { exitCode, stdout: status } = await podmanSays("exec", NAME, "sandlot", "status");
    expect([exitCode, status]).toEqual([0, expect.stringContaining("1 paused, 1 running")]);
    expect((await podmanSays("healthcheck", "run", NAME)).exitCode).toBe(0);
    await run(machine.enter(podman("stop", `--time=${STOP_S}`, NAME)), { timeoutMs: CALL_MS });
    expect(await first.container.exited).toBe(0);
    expect(await run(["losetup", "--list", "--noheadings", "--output", "BACK-FILE"])).not.toContain(volume);

    const second = await start(machine, volume);
    const resumed = await runWithSdk(
      async ({ Sandbox, word }) => {
        const [paused = "", running = ""] = word.split(" ");
        const ended = await Sandbox.connect(running).catch(({ name }: Error) => name);
        const sandbox = await Sandbox.connect(paused);
        const { stdout } = await sandbox.commands.run("whoami; pgrep -x sleep");
        await sandbox.pause();
        return { stdout, ended };
      },
      { ...second.client, word: `${made.paused} ${made.running}` },
    );
    expect(resumed).toEqual({ stdout: made.stdout, ended: "SandboxNotFoundError" });
    await run(machine.enter(podman("kill", NAME)), { timeoutMs: CALL_MS });
    expect(await second.container.exited).toBe(KILLED);

    const third = await start(machine, volume);
    const left = await runWithSdk(
      async ({ Sandbox, word }) => {
        const sandbox = await Sandbox.connect(word);
        const { stdout } = await sandbox.commands.run("whoami; pgrep -x sleep");
        const isKilled = await sandbox.kill();
        return { stdout, isKilled, others: await Sandbox.list().nextItems() };
      },
      { ...third.client, word: made.paused },
    );
    expect(left).toEqual({ stdout: made.stdout, isKilled: true, others: [] });
    await run(machine.enter(podman("stop", `--time=${STOP_S}`, NAME)), { timeoutMs: CALL_MS });
    expect(await third.container.exited).toBe(0);
  },
  TEST_MS,
);

/** A new container on the volume. */
async function start(machine: StockMachine, volume: string) {
  const ports = [`--publish=127.0.0.1:${PORT}:${PORT}`, `--env=SANDLOT_LISTEN=0.0.0.0:${PORT}`];
  const options = ["--rm", `--name=${NAME}`, "--privileged", ...ports, `--volume=${volume}:/var/lib/sandlot`];
  const argv = machine.enter(podman("run", ...options, IMAGE));
  const container = Bun.spawn(argv, { stdio: ["ignore", "pipe", "pipe"] });
  const url = await addressOf(container);
  const key = readFileSync(join(volume, "data/api-key"), "utf8").trim();
  const env = { E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: key };
  return { container, client: { enter: machine.enterNetwork, env } };
}
