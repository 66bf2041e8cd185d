/** Many sandboxes at once: each is separate, works, and ends with nothing left behind. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { LONG } from "../../src/base/testing/long.ts";
import { census, NOTHING, settledCensus } from "../support/census.ts";
import { startListening } from "../support/listening.ts";
import { rawRequest } from "../support/raw-request.ts";
import { serverOfFile } from "../support/server-of-file.ts";

const server = serverOfFile("many-sandboxes", { SANDLOT_READY: "0" });
const COUNT = LONG ? 50 : 20;
const numbers = Array.from({ length: COUNT }, (_, at) => at);

/** The number that a sandbox has to compute. */
function triangle(at: number): number {
  return (at * (at + 1)) / 2;
}

async function listed(): Promise<Set<string>> {
  const paginator = Sandbox.list({ ...server().options, limit: 20 });
  const ids = new Set<string>();
  while (paginator.hasNext) for (const { sandboxId } of await paginator.nextItems()) ids.add(sandboxId);
  return ids;
}

test(`${COUNT} concurrent sandboxes work, have separate state, and are gone when killed`, async () => {
  const sandboxes = await Promise.all(
    numbers.map((at) => Sandbox.create({ ...server().options, timeoutMs: 600_000, envs: { NUMBER: String(at) } })),
  );
  const ids = sandboxes.map(({ sandboxId }) => sandboxId);
  expect(new Set(ids).size).toBe(COUNT);
  expect(await listed()).toEqual(new Set(ids));

  // Each writes its own nonce to the same path, before any reads it back: a shared disk would show.
  const nonces = numbers.map(() => crypto.randomUUID());
  await Promise.all(sandboxes.map((sandbox, at) => sandbox.files.write("nonce", nonces[at] ?? "")));
  const sum = "$(seq 1 $NUMBER | awk '{ sum += $1 } END { print sum + 0 }')";
  const work = `echo "$(cat nonce) $NUMBER $E2B_SANDBOX_ID ${sum}"`;
  const answers = await Promise.all(sandboxes.map((sandbox) => sandbox.commands.run(work, { timeoutMs: 50_000 })));
  expect(answers.map(({ stdout }) => stdout)).toEqual(
    numbers.map((at) => `${nonces[at]} ${at} ${ids[at]} ${triangle(at)}\n`),
  );
  const read = await Promise.all(sandboxes.map((sandbox) => sandbox.files.read("nonce")));
  expect(read).toEqual(nonces);

  // The same port in every one: each address must lead to its own sandbox.
  await Promise.all(
    sandboxes.map((sandbox) => startListening(sandbox, "exec python3 -u -m http.server 8000 --directory /home/user")),
  );
  const served = await Promise.all(
    ids.map((id) => rawRequest(server().url, { target: "/nonce", host: `8000-${id}.anything.test` })),
  );
  expect(served.map(({ body }) => body)).toEqual(nonces);

  const during = await census(server().dataFolder);
  expect(during).toMatchObject({ runFolders: COUNT, disks: COUNT, loopDevices: COUNT, interfaces: COUNT });
  expect(during.namespaces).toBe(COUNT * 8);

  expect(await Promise.all(sandboxes.map((sandbox) => sandbox.kill()))).toEqual(numbers.map(() => true));
  expect(await Promise.all(sandboxes.map((sandbox) => sandbox.isRunning()))).toEqual(numbers.map(() => false));
  expect(await listed()).toEqual(new Set());
  expect(await settledCensus(server().dataFolder, NOTHING)).toEqual(NOTHING);
});

test("waves of creates and kills never mix up sandboxes", async () => {
  for (let wave = 0; wave < 5; wave += 1) {
    const outputs = await Promise.all(
      numbers.slice(0, 8).map(async (at) => {
        const sandbox = await Sandbox.create({ ...server().options, envs: { WHO: `${wave}-${at}` } });
        const { stdout } = await sandbox.commands.run(
          "ls -A /home/user | grep -v '^\\.'; echo $WHO > left-behind; cat left-behind",
        );
        await sandbox.kill();
        return stdout;
      }),
    );
    // Only its own output: a disk or an address that passes from one sandbox to the next is clean.
    expect(outputs).toEqual(numbers.slice(0, 8).map((at) => `${wave}-${at}\n`));
  }
});
