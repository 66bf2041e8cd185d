/** The secrets and identities that each copy of a sandbox has from its start: none of the original's opens it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { untilTrue } from "../../../src/base/testing/until.ts";
import { CONTROL_SECRET_HEADER } from "../../../src/contract/runtime/guest-control.ts";
import { RUNTIME_PORT } from "../../../src/contract/runtime/version.ts";
import { recordOf, shell } from "../../support/inside.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";

const COPIES = 10;
const here = new MachineOfFile("fresh-copies");

/** The guest's status for this secret, and the name of its journal if the secret is accepted. */
async function knock(id: string, secret: string): Promise<{ status: number; journal: string }> {
  const url = `http://${here.machine.addressOf(id)}:${RUNTIME_PORT}/control/journal`;
  const headers = { [CONTROL_SECRET_HEADER]: secret };
  const response = await fetch(url, { headers, keepalive: false, signal: AbortSignal.timeout(30_000) });
  const reader = response.body?.getReader();
  const first = new TextDecoder().decode((await reader?.read())?.value);
  await reader?.cancel();
  return {
    status: response.status,
    journal: response.status === 200 ? JSON.parse(first.split("\n")[0] ?? "").journal : "",
  };
}

const secretOf = (id: string) => recordOf(here.data, id).controlSecret;

describe("ten copies", () => {
  const token = "t".repeat(64);
  let original: string;
  let copies: string[] = [];
  beforeAll(async () => {
    original = (await here.machine.create({ ...request, accessTokens: [token] })).id;
    await here.machine.snapshot(original, "ten", { memory: true });
    const made = Array.from({ length: COPIES }, () =>
      here.machine.create({ ...request, checkpoint: "ten", accessTokens: ["of a copy"] }),
    );
    copies = (await Promise.all(made)).map(({ id }) => id);
  });
  afterAll(async () => {
    await Promise.all([original, ...copies].map((id) => here.machine.destroy(id)));
    await here.machine.removeCheckpoint("ten");
  });

  test("have their own control secrets and reject the original's", async () => {
    expect(new Set([original, ...copies].map(secretOf)).size).toBe(COPIES + 1);
    for (const id of copies) {
      expect((await knock(id, secretOf(original))).status).toBe(401);
      expect((await knock(id, secretOf(id))).status).toBe(200);
      expect((await knock(original, secretOf(id))).status).toBe(401);
    }
    expect((await knock(original, secretOf(original))).status).toBe(200);
  });

  test("their checkpoint contains no control secret", () => {
    const { checkpointsFolder } = here.machine.parts.disks;
    expect(readFileSync(join(checkpointsFolder, "ten/manifest.json"), "utf8")).not.toContain(secretOf(original));
  });

  test("draw different random values in the guest", async () => {
    const names = await Promise.all([original, ...copies].map(async (id) => (await knock(id, secretOf(id))).journal));
    expect(new Set(names).size).toBe(COPIES + 1);
    for (const name of names) expect(name).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-/);
  });

  test("reject the original's token", async () => {
    const ask = (id: string, with_: string) =>
      fetch(`http://${here.machine.addressOf(id)}:${RUNTIME_PORT}/envs`, {
        headers: { "x-access-token": with_ },
        keepalive: false,
      });
    for (const id of copies.slice(0, 2)) {
      expect((await ask(id, token)).status).toBe(401);
      expect((await ask(id, "of a copy")).status).toBe(200);
    }
  });

  test("have copies with their own secrets again", async () => {
    const [copy = ""] = copies;
    await here.machine.snapshot(copy, "second", { memory: true });
    const { id } = await here.machine.create({ ...request, checkpoint: "second" });
    for (const older of [original, copy]) expect((await knock(id, secretOf(older))).status).toBe(404);
    expect((await knock(id, secretOf(id))).status).toBe(200);
    await here.machine.destroy(id);
    await here.machine.removeCheckpoint("second");
  });
});

test("a resume changes the secret and keeps the boot id; a restarted guest reads the current secret", async () => {
  const { id } = await here.machine.create(request);
  const bootId = () => shell(here.data, id, "cat /proc/sys/kernel/random/boot_id");
  const before = { secret: secretOf(id), boot: await bootId() };
  await here.machine.pause(id, "resumed", { memory: true });
  await here.machine.resume({ ...request, id, checkpoint: "resumed", memory: true });
  expect((await knock(id, before.secret)).status).toBe(404);
  expect(await bootId()).toBe(before.boot);
  await shell(here.data, id, "pkill -KILL -f ^/.sandlot/bin/guest");
  const running = recordOf(here.data, id);
  expect(running.controlSecret).not.toBe(before.secret);
  // The secret stored for the next server opens it.
  const status = async () => (await knock(id, running.controlSecret).catch(() => ({ status: 0 }))).status;
  await untilTrue(async () => (await status()) === 200);
  await here.machine.destroy(id);
  await here.machine.removeCheckpoint("resumed");
});
