/** Sandboxes report the version of their own guest, which may be older than the server. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import type { ForkAnswer } from "../../contract/management/fork.ts";
import { RUNTIME_VERSION } from "../../contract/runtime/version.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { storeStarted } from "../testing/stored-templates.ts";

/** Of the template's checkpoint. */
const OLD = "0.6.4";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  await storeStarted(fixture, "serving", "serving-started");
});
afterEach(() => fixture[Symbol.asyncDispose]());

async function created(templateID: string): Promise<{ sandboxID: string; envdVersion: string }> {
  const { status, body } = await fixture.call("POST", "/sandboxes", { templateID, timeout: 600 });
  expect(status).toBe(201);
  return body;
}

async function versionOf(id: string): Promise<string> {
  const { body } = await fixture.call("GET", `/sandboxes/${id}`);
  const { body: all } = await fixture.call("GET", "/v2/sandboxes");
  expect(all.find(({ sandboxID }: { sandboxID: string }) => sandboxID === id)?.envdVersion).toBe(body.envdVersion);
  return body.envdVersion;
}

test("a booted sandbox has the server's version, one from a checkpoint that of its memory", async () => {
  expect((await created("base")).envdVersion).toBe(RUNTIME_VERSION);
  const { sandboxID, envdVersion } = await created("serving");
  expect([envdVersion, await versionOf(sandboxID)]).toEqual([OLD, OLD]);
  await storeStarted(fixture, "unmade", null);
  expect((await created("unmade")).envdVersion).toBe(RUNTIME_VERSION);
  fixture.host.mismatchOf = () => "another kernel";
  expect((await created("serving")).envdVersion).toBe(RUNTIME_VERSION);
});

test("a sandbox keeps its version with its memory, and gets the server's with its next boot", async () => {
  const { sandboxID } = await created("serving");
  const resume = async (body: object) => {
    await fixture.call("POST", `/sandboxes/${sandboxID}/pause`);
    expect((await fixture.call("POST", `/sandboxes/${sandboxID}/connect`, { timeout: 600, ...body })).status).toBe(201);
    return await versionOf(sandboxID);
  };
  expect(await resume({})).toBe(OLD);
  expect(await resume({ memory: false })).toBe(RUNTIME_VERSION);
  expect(await resume({})).toBe(RUNTIME_VERSION);
});

test("copies have the version of their original, unless they start without its memory", async () => {
  const { sandboxID } = await created("serving");
  const { body } = await fixture.call("POST", `/sandboxes/${sandboxID}/fork`, { count: 1, timeout: 600 });
  for (const fork of body as unknown as ForkAnswer) {
    expect("sandbox" in fork && (await versionOf(fork.sandbox.sandboxID))).toBe(OLD);
  }
  for (const [memory, version] of [
    [true, OLD],
    [false, RUNTIME_VERSION],
  ] as const) {
    const { body } = await fixture.call("POST", `/sandboxes/${sandboxID}/snapshots`, { memory });
    expect((await created(body.snapshotID)).envdVersion).toBe(version);
  }
});
