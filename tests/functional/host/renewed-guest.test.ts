/** A template's memory holds nothing that its guest was told by the team that built it. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { GuestClient } from "../../../src/sandbox/guest-link/guest-client.ts";
import { GuestCommands } from "../../../src/sandbox/guest-link/guest-commands.ts";
import { attempt } from "../../../src/system/command.ts";
import { ask, recordOf, shell } from "../../support/inside.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";

const here = new MachineOfFile("renewed-guest");
const PORT = 8123;

/** Writes a line per request; without a reader of its output, that write would end it. */
const SERVER = `
import socket, sys
server = socket.create_server(("0.0.0.0", ${PORT}))
told = 0
while True:
    client, _ = server.accept()
    client.makefile().readline()
    for stream in (sys.stdout, sys.stderr): print("x" * 70000, file=stream, flush=True)
    told += 1
    client.sendall(b"%d" % told)
    client.close()
`;

const random = () => crypto.randomUUID().replaceAll("-", "");

/** Which of these are somewhere in a checkpoint's memory, files in memory included. */
async function found(checkpoint: string, words: Record<string, string>): Promise<string[]> {
  const folder = join(here.machine.parts.disks.checkpointsFolder, checkpoint, "memory");
  expect(readdirSync(folder).length).toBeGreaterThan(10);
  const hits: string[] = [];
  for (const [name, word] of Object.entries(words)) {
    // In either encoding that JavaScript has for texts.
    const patterns = [word, [...word].join("\\x00")];
    for (const pattern of patterns) {
      const { exitCode } = await attempt(["grep", "-raqP", pattern, folder]);
      if (exitCode === 0) hits.push(name);
    }
  }
  return [...new Set(hits)].sort();
}

test("a renewed guest has no settings left, started processes continue, and copies work", async () => {
  const words = { token: random(), old: random(), variable: random(), argument: random() };
  const { id } = await here.machine.create({ ...request, accessTokens: [words.old] });
  const address = here.machine.addressOf(id) ?? "";
  const record = recordOf(here.data, id);
  const guest = new GuestClient(address, record.controlSecret);
  const settings = { sandboxId: id, templateId: "t", defaultUser: "user", defaultWorkdir: "", envVars: {} };
  await guest.configure({ ...settings, accessTokens: [words.token] });
  const commands = new GuestCommands(address, words.token);
  const signal = AbortSignal.timeout(60_000);
  const hungUp = new AbortController();
  const server = {
    argv: ["/usr/bin/python3", "-c", SERVER] as [string, ...string[]],
    user: "user",
    cwd: "/",
    envVars: {},
  };
  const { ended } = await commands.start(server, () => undefined, hungUp.signal);
  ended.catch(() => undefined);
  expect(await ask(here.machine, id, PORT)).toBe("1");
  hungUp.abort();
  await commands.run(
    { argv: ["/bin/true", words.argument], user: "user", cwd: "/", envVars: { X: words.variable } },
    () => undefined,
    signal,
  );
  await guest.configure({ ...settings, envVars: { Y: words.variable }, accessTokens: [words.token] });

  const secrets = { ...words, secret: record.controlSecret };
  await here.machine.snapshot(id, "before", { memory: true });
  // This shows that the search finds existing secrets.
  expect(await found("before", secrets)).toEqual(expect.arrayContaining(["token", "variable"]));

  await guest.renew(() => true);
  expect(await ask(here.machine, id, PORT)).toBe("2");
  await here.machine.snapshot(id, "renewed", { memory: true });
  expect(await found("renewed", secrets)).toEqual([]);
  const closed = await fetch(`http://${address}:49983/envs`, {
    headers: { "x-access-token": words.token },
    keepalive: false,
  });
  expect(closed.status).toBe(401);

  const copy = await here.machine.create({
    ...request,
    checkpoint: "renewed",
    accessTokens: ["of the copy"],
    envVars: { Z: "z" },
  });
  expect(await ask(here.machine, copy.id, PORT)).toBe("3");
  expect(await ask(here.machine, copy.id, PORT)).toBe("4");
  let output = "";
  const inside = new GuestCommands(here.machine.addressOf(copy.id) ?? "", "of the copy");
  await inside.run(
    { argv: ["/bin/sh", "-c", "echo $Z"], user: "user", cwd: "/", envVars: {} },
    (chunk) => {
      output += Buffer.from(chunk).toString();
    },
    signal,
  );
  expect(output).toBe("z\n");
  expect(await shell(here.data, copy.id, "cat /etc/hostname")).toBe("e2b.local");
  expect(await shell(here.data, copy.id, "cat /etc/machine-id")).not.toBe(
    await shell(here.data, id, "cat /etc/machine-id"),
  );
  // The process that reads in the guest's place ends with the writer.
  await shell(here.data, copy.id, "pkill -f create_serve[r]; while pgrep -f 'busybox ca[t]'; do sleep 0.02; done");
  for (const each of [id, copy.id]) await here.machine.destroy(each);
  for (const name of ["before", "renewed"]) await here.machine.removeCheckpoint(name);
});
