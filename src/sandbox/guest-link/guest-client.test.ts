/** Guests that respond wrongly or not at all, each on a loopback address in place of a sandbox's. */
import { afterEach, describe, expect, spyOn, test } from "bun:test";
import { readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { LogEntry } from "../../base/log.ts";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { AUTHORITY_READ_HEADER, type GuestSettings } from "../../contract/runtime/guest-control.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { GUEST_ALIVE_EVERY_MS, GuestClient, pauseAfter } from "./guest-client.ts";
import { ListenSignal } from "./listen-signal.ts";

const ADDRESS = "127.81.7.1";
const settings = {} as GuestSettings;
let server: ReturnType<typeof Bun.serve> | undefined;
afterEach(async () => {
  await server?.stop(true);
  server = undefined;
});

function answering(status: number): GuestClient {
  server = Bun.serve({ hostname: ADDRESS, port: RUNTIME_PORT, fetch: () => new Response(null, { status }) });
  return new GuestClient(ADDRESS, "secret");
}

test("a guest that responds gets its settings", async () => {
  const requests: string[] = [];
  server = Bun.serve({
    hostname: ADDRESS,
    port: RUNTIME_PORT,
    fetch: async (request) => {
      requests.push(`${request.method} ${new URL(request.url).pathname.split("/").at(-1)} ${await request.text()}`);
      return new Response(null, { status: 204 });
    },
  });
  const guest = new GuestClient(ADDRESS, "secret");
  await guest.ready(() => true);
  await guest.configure(settings);
  expect(requests).toEqual(["GET ping ", "POST configure {}"]);
});

test("a guest that ignores the certificate of header rules is logged once, with its sandbox and the remedy", async () => {
  let headers: Record<string, string> = {};
  server = Bun.serve({
    hostname: ADDRESS,
    port: RUNTIME_PORT,
    fetch: () => new Response(null, { status: 204, headers }),
  });
  const entries: LogEntry[] = [];
  const log = { write: (entry: LogEntry) => void entries.push(entry) };
  const withRules = { ...settings, sandboxId: "i1", trustedAuthority: "certificate" };
  const guest = new GuestClient(ADDRESS, "secret", undefined, log);
  await guest.configure({ ...settings, sandboxId: "i1" });
  expect(entries).toEqual([]);
  await guest.configure(withRules);
  await guest.readyWith(withRules, () => true);
  expect(entries).toEqual([
    {
      level: "warn",
      event: "a sandbox has an older guest, which ignores the certificate of header rules",
      sandbox: "i1",
      remedy: expect.stringContaining("create a new sandbox"),
    },
  ]);
  headers = { [AUTHORITY_READ_HEADER]: "1" };
  const current = new GuestClient(ADDRESS, "secret", undefined, log);
  await current.configure(withRules);
  await current.readyWith(withRules, () => true);
  expect(entries).toHaveLength(1);
});

test("the client does not wait for an ended sandbox", async () => {
  const guest = new GuestClient(ADDRESS, "secret");
  await expect(guest.ready(() => false)).rejects.toThrow("the sandbox ended while it was starting");
});

// The caller needs another sandbox at once, not a later retry.
test("rejected settings are not reported as a timeout", async () => {
  const refused = new GuestClient(ADDRESS, "secret").configure(settings);
  await expect(refused).rejects.toMatchObject({ status: 500, message: "the guest did not receive its settings" });
});

describe("a guest that reads its settings from the file", () => {
  const folder = folderOfFile("shown");
  const files = { settings: join(folder, "settings.json"), shown: join(folder, "control-secret") };

  test("finds them after the secret, and can get them again", async () => {
    writeFileSync(files.shown, "secret");
    new GuestClient(ADDRESS, "secret", files).show({ ...settings, sandboxId: "i1" });
    expect(readFileSync(files.shown, "utf8")).toBe('secret\n{"sandboxId":"i1"}');
    const reported = Promise.withResolvers<unknown>();
    server = Bun.serve({
      hostname: ADDRESS,
      port: RUNTIME_PORT,
      fetch: async (request) => {
        reported.resolve(await request.json());
        return new Response(null, { status: 204 });
      },
    });
    await new GuestClient(ADDRESS, "secret", files).reconfigure();
    expect(await reported.promise).toEqual({ sandboxId: "i1" });
  });

  const taking: [string, (guest: GuestClient) => Promise<void> | void][] = [
    ["has answered", (guest) => guest.settingsApplied()],
    ["has answered to be copied", (guest) => guest.settle()],
    ["was told others", (guest) => guest.configure(settings)],
    ["was told others at once", (guest) => guest.readyWith(settings, () => true)],
  ];
  test.each(taking)("finds only the secret once it %s", async (_, take) => {
    writeFileSync(files.shown, "secret");
    answering(204);
    const guest = new GuestClient(ADDRESS, "secret", files);
    guest.show({ ...settings, sandboxId: "i1" });
    await take(guest);
    expect(readFileSync(files.shown, "utf8")).toBe("secret");
  });

  test("finds them until it has answered a request", async () => {
    writeFileSync(files.shown, "secret");
    const guest = new GuestClient(ADDRESS, "secret", files);
    answering(503);
    guest.show({ ...settings, sandboxId: "i1" });
    await guest.settle();
    expect(readFileSync(files.shown, "utf8")).toContain("i1");
  });

  test("gets a request before it is copied, unless it has answered since", async () => {
    let requestCount = 0;
    server = Bun.serve({
      hostname: ADDRESS,
      port: RUNTIME_PORT,
      fetch: () => new Response(null, { status: ++requestCount > 0 ? 204 : 500 }),
    });
    const guest = new GuestClient(ADDRESS, "secret", files);
    await guest.settle();
    await guest.settle();
    expect(requestCount).toBe(1);
    const received = new GuestClient(ADDRESS, "secret", files);
    received.settingsApplied();
    await received.settle();
    expect(requestCount).toBe(1);
    const reported = new GuestClient(ADDRESS, "secret", files);
    await reported.configure(settings);
    await reported.settle();
    expect(requestCount).toBe(2);
  });

  test("is copied even if it does not answer, and gets another request before the next copy", async () => {
    const guest = new GuestClient(ADDRESS, "secret", files);
    await guest.settle();
    let requestCount = 0;
    server = Bun.serve({
      hostname: ADDRESS,
      port: RUNTIME_PORT,
      fetch: () => new Response(null, { status: ++requestCount === 1 ? 503 : 204 }),
    });
    for (const times of [1, 2, 2]) {
      await guest.settle();
      expect(requestCount).toBe(times);
    }
  });
});

test("a warm-up gives the guest settings without an owner, runs commands that print, and collects garbage", async () => {
  const requests: unknown[] = [];
  server = Bun.serve({
    hostname: ADDRESS,
    port: RUNTIME_PORT,
    fetch: async (request) => {
      const name = new URL(request.url).pathname.split("/").at(-1);
      requests.push(name === "configure" ? await request.json() : name === "collect" ? name : await request.text());
      return new Response(null, { status: name === "configure" ? 204 : 200 });
    },
  });
  await new GuestClient(ADDRESS, "secret").warmUp("user");
  const command = expect.stringContaining('["-l","-c","echo"]');
  expect(requests).toEqual([
    expect.objectContaining({ sandboxId: "", accessTokens: [] }),
    command,
    command,
    command,
    "collect",
  ]);
});

// Its memory becomes part of a template, which must hold no secret.
test("a renewed guest gets requests without the secret", async () => {
  const requests: string[] = [];
  server = Bun.serve({
    hostname: ADDRESS,
    port: RUNTIME_PORT,
    fetch: ({ url, headers }) => {
      const path = new URL(url).pathname;
      requests.push(`${path} ${headers.get("x-sandlot-control")}`);
      return path === "/health" ? new Response(null, { status: 204 }) : new Response("ends");
    },
  });
  await new GuestClient(ADDRESS, "secret").renew(() => true);
  expect(requests).toEqual(["/control/renew secret", "/health null"]);
});

test("a guest that rejects its settings returns its status", async () => {
  await expect(answering(400).configure(settings)).rejects.toThrow("the guest refused its settings with status 400");
});

test("a ready guest gets its settings with the first request, which is repeated until it answers", async () => {
  const requests: string[] = [];
  server = Bun.serve({
    hostname: ADDRESS,
    port: RUNTIME_PORT,
    fetch: ({ method, url }) => {
      requests.push(`${method} ${new URL(url).pathname.split("/").at(-1)}`);
      return new Response(null, { status: requests.length === 1 ? 503 : 204 });
    },
  });
  await new GuestClient(ADDRESS, "secret").readyWith(settings, () => true);
  expect(requests).toEqual(["POST configure", "POST configure"]);
});

test("a guest that rejects its settings gets no further request", async () => {
  const request = answering(400).readyWith(settings, () => true);
  await expect(request).rejects.toThrow("the guest refused its settings with status 400");
});

test.each([
  ["", (guest: GuestClient, alive: () => boolean) => guest.ready(alive)],
  [" with its settings", (guest: GuestClient, alive: () => boolean) => guest.readyWith(settings, alive)],
])("a guest that starts later is found%s", async (_, ready) => {
  let looked = 0;
  await ready(new GuestClient(ADDRESS, "secret"), () => {
    if (++looked === 2) answering(204);
    return true;
  });
  expect(looked).toBe(2);
});

describe("a guest that signals that it listens", () => {
  const folder = folderOfFile("sign");
  const path = join(folder, "file");

  test("gets its first request after the signal", async () => {
    writeFileSync(path, "");
    using sign = new ListenSignal(path);
    const request = spyOn(globalThis, "fetch");
    const began = performance.now();
    const ready = new GuestClient(ADDRESS, "secret").readyWith(settings, () => true, sign);
    await Bun.sleep(50);
    answering(204);
    utimesSync(path, 1, 2);
    await ready;
    // A busy machine may take this test past the interval.
    const atIntervals = Math.floor((performance.now() - began) / GUEST_ALIVE_EVERY_MS);
    expect(request.mock.calls.length).toBeLessThanOrEqual(1 + atIntervals);
    request.mockRestore();
  });

  test("is found without a signal, and given up if its sandbox has ended", async () => {
    writeFileSync(path, "");
    using sign = new ListenSignal(path);
    await answering(204).ready(() => true, sign);
    await server?.stop(true);
    const ended = new GuestClient(ADDRESS, "secret").ready(() => false, sign);
    await expect(ended).rejects.toThrow("the sandbox ended while it was starting");
  });

  test("and does not answer is polled like any other", async () => {
    writeFileSync(path, "");
    using sign = new ListenSignal(path);
    utimesSync(path, 1, 2);
    const guest = new GuestClient(ADDRESS, "secret");
    await guest.ready(() => {
      if (server === undefined) answering(204);
      return true;
    }, sign);
  });
});

test("a guest with a wrong first response gets the request again", async () => {
  const guest = answering(503);
  await guest.ready(() => {
    server?.reload({ fetch: () => new Response(null, { status: 204 }) });
    return true;
  });
});

// Seen: of 168 guests in a burst, two took their first question and left it for a second.
test("a guest that drops the first request gets it again soon", async () => {
  let requestCount = 0;
  server = Bun.serve({
    hostname: ADDRESS,
    port: RUNTIME_PORT,
    fetch: () =>
      ++requestCount === 1 ? Promise.withResolvers<Response>().promise : new Response(null, { status: 204 }),
  });
  await new GuestClient(ADDRESS, "secret").ready(() => true);
  expect(requestCount).toBe(2);
});

test.each([
  [0, 5],
  [18, 5],
  [60, 10],
  [300, 50],
  [20_000, 100],
])("after %i ms the next attempt is in %i", (elapsed, pause) => {
  expect(pauseAfter(elapsed)).toBe(pause);
});
