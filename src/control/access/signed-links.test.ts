/** A signed link leads only to the sandbox whose token signed it; guessing is slow. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { fileSignature, type SignedLink } from "../../contract/runtime/file-signature.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { LINK_MISSES_MAX, LINK_MISSES_WINDOW_MS } from "./signed-links.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

async function secured(timeout = 3600): Promise<{ id: string; token: string }> {
  const { body } = await fixture.call("POST", "/sandboxes", { templateID: "base", timeout, secure: true });
  return { id: body.sandboxID, token: body.envdAccessToken ?? "" };
}

function link(token: string, changes: Partial<SignedLink> = {}): SignedLink {
  const content = { path: "a.txt", username: "", operation: "read" as const, expiration: undefined };
  return { ...content, signature: fileSignature(content, token), ...changes };
}

const find = (request: SignedLink, client = "192.0.2.7") => fixture.control.directory.findSigned(request, client);

test("a link finds the sandbox that signed it among several", async () => {
  const all = await Promise.all([secured(), secured(), secured()]);
  for (const { id, token } of all) expect(await find(link(token))).toBe(id);
});

test.each([
  ["another path", { path: "b.txt" }],
  ["another user", { username: "root" }],
  ["another operation", { operation: "write" }],
  ["an expiration that was not signed", { expiration: 4102444800 }],
  ["a changed signature", { signature: "v1_x" }],
] as [string, Partial<SignedLink>][])("with %s the link is rejected", async (_, changes) => {
  const { token } = await secured();
  expect(await find(link(token, changes))).toBeUndefined();
});

test("a sandbox that ended or has no token is not found", async () => {
  await fixture.create();
  expect(await find(link(""))).toBeUndefined();
  const { token } = await secured(10);
  await fixture.advance(10_000);
  expect(await find(link(token))).toBeUndefined();
});

test("a client that guesses too often must wait for the window, others need not", async () => {
  await secured();
  const guess = link("wrong");
  for (let times = 0; times < LINK_MISSES_MAX; times++) expect(await find(guess)).toBeUndefined();
  const refused = await find(guess).catch((error) => error);
  expect(refused).toBeInstanceOf(Fault);
  expect(refused).toMatchObject({ status: 429, headers: { "Retry-After": "60" } });
  expect(await find(guess, "192.0.2.8")).toBeUndefined();
  await fixture.advance(LINK_MISSES_WINDOW_MS);
  expect(await find(guess)).toBeUndefined();
});

test("invalid links from an address do not block valid ones from it, and valid ones do not end the wait", async () => {
  const { id, token } = await secured();
  const guess = link("wrong");
  for (let times = 0; times < LINK_MISSES_MAX; times++) await find(guess);
  expect(await find(link(token))).toBe(id);
  await expect(find(guess)).rejects.toMatchObject({ status: 429 });
  expect(await find(link(token))).toBe(id);
});

test.each(["running", "paused"])("valid links are never counted, with the sandbox %s", async (state) => {
  const { id, token } = await secured();
  if (state === "paused") await fixture.call("POST", `/sandboxes/${id}/pause`);
  for (let times = 0; times < LINK_MISSES_MAX + 5; times++) expect(await find(link(token))).toBe(id);
});
