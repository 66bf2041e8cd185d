/**
 * Unreadable settings: the guest does not know its access rules, so it rejects every request until the host has
 * configured it again. Also the settings that a guest finds where the host shows it its secret.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { untilTrue } from "../../base/testing/until.ts";
import { AUTHORITY_READ_HEADER, SETTINGS_LOST_STATUS } from "../../contract/runtime/guest-control.ts";
import { guestOfFile } from "../testing/guest-of-file.ts";
import { envelope, RunningGuest, SECRET } from "../testing/running-guest.ts";

const TOKEN = "the-token-of-the-sandbox";
const guest = await guestOfFile();
const file = `${guest.folder}/state/settings.json`;

const secure = () => guest.configure({ accessTokens: [TOKEN], defaultUser: "daemon" });
const whole = () => JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;

const DAMAGES: [string, () => void][] = [
  ["empty", () => writeFileSync(file, "")],
  ["cut off", () => writeFileSync(file, readFileSync(file, "utf8").slice(0, -5))],
  ["zeros", () => writeFileSync(file, Buffer.alloc(200))],
  ["null", () => writeFileSync(file, "null")],
  ["without its tokens", () => writeFileSync(file, JSON.stringify({ ...whole(), accessTokens: undefined }))],
  ["with an empty token", () => writeFileSync(file, JSON.stringify({ ...whole(), accessTokens: [""] }))],
  [
    "a link to itself",
    () => {
      rmSync(file);
      symlinkSync("settings.json", file);
    },
  ],
];

const REQUESTS: [string, string, RequestInit?][] = [
  ["a call", "/process.Process/List", { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } }],
  [
    "a stream",
    "/process.Process/Start",
    {
      method: "POST",
      body: envelope({ process: { cmd: "/bin/true" } }),
      headers: { "Content-Type": "application/connect+json", Authorization: `Basic ${btoa("root:")}` },
    },
  ],
  ["metrics", "/metrics"],
  ["variables", "/envs"],
  ["a file", "/files?path=/etc/hostname&username=root"],
  ["a signed file", "/files?path=/etc/hostname&signature=v1_x&username=root"],
  ["an upload", "/files?path=/tmp/x&username=root", { method: "POST", body: "x" }],
  ["a missing path", "/nothing"],
  ["another method of health", "/health", { method: "POST" }],
];

// Guards against taking damaged settings for none: all requests are then served, as root, without a token.
describe.each(DAMAGES)("a settings file that is %s", (_, damage) => {
  beforeAll(async () => {
    await secure();
    damage();
    await guest.respawn();
  });

  test.each(REQUESTS)("blocks all requests: %s is 503", async (_, path, init = {}) => {
    for (const token of [{}, { "X-Access-Token": TOKEN }, { "X-Access-Token": "" }]) {
      const response = await guest.fetch(path, {
        ...init,
        headers: { ...init.headers, ...token } as Record<string, string>,
      });
      expect(response.status).toBe(503);
      expect(await response.json()).toEqual({ code: 503, message: expect.stringContaining("settings were damaged") });
    }
  });

  test("leaves health and the control channel open, and is replaced when the host sends settings", async () => {
    expect((await guest.fetch("/health")).status).toBe(204);
    const ping = await guest.fetch("/control/ping", { headers: { "x-sandlot-control": SECRET } });
    expect(ping.status).toBe(204);
    const journal = await guest.fetch("/control/journal", { headers: { "x-sandlot-control": SECRET } });
    expect(journal.status).toBe(SETTINGS_LOST_STATUS);
    await secure();
    expect((await guest.fetch("/envs")).status).toBe(401);
    expect((await guest.fetch("/envs", { headers: { "X-Access-Token": TOKEN } })).status).toBe(200);
    await guest.respawn();
    expect((await guest.fetch("/envs")).status).toBe(401);
  });
});

test("the log reports unusable settings without their content", async () => {
  await secure();
  writeFileSync(file, readFileSync(file, "utf8").slice(0, -5));
  const before = guest.log.length;
  await guest.respawn();
  await untilTrue(() => guest.log.slice(before).includes("unusable"));
  expect(guest.log).not.toContain(TOKEN);
});

describe("settings after the secret", () => {
  const settings = {
    sandboxId: "ishown",
    templateId: "t",
    envVars: { SHOWN: "yes" },
    accessTokens: [TOKEN],
    defaultUser: "daemon",
    defaultWorkdir: "",
  };
  const token = { "X-Access-Token": TOKEN };
  const shownTo = (nobodys: RunningGuest) => `${nobodys.folder}/secret`;

  test("apply from the next request on, also to a restarted guest, and are read once", async () => {
    await using nobodys = await RunningGuest.start();
    expect((await nobodys.fetch("/envs")).status).toBe(200);
    appendFileSync(shownTo(nobodys), `\n${JSON.stringify(settings)}`);
    expect((await nobodys.fetch("/envs")).status).toBe(401);
    const envs = async () => (await nobodys.fetch("/envs", { headers: token })).json();
    expect(await envs()).toMatchObject({ SHOWN: "yes", E2B_SANDBOX_ID: "ishown" });
    expect(readFileSync(`${nobodys.folder}/state/e2b/.E2B_SANDBOX_ID`, "utf8")).toBe("ishown");
    writeFileSync(shownTo(nobodys), `${SECRET}\n${JSON.stringify({ ...settings, accessTokens: [] })}`);
    expect((await nobodys.fetch("/envs")).status).toBe(401);
    // There with the secret alone, as after a restore.
    await nobodys.respawn();
    expect(await envs()).toMatchObject({ SHOWN: "yes" });
    const response = await nobodys.control("configure", { ...settings, envVars: { SHOWN: "again" } });
    expect([response.status, response.headers.has(AUTHORITY_READ_HEADER)]).toEqual([204, true]);
    expect(await envs()).toMatchObject({ SHOWN: "again" });
  });

  test("are also read by the host's own requests", async () => {
    await using nobodys = await RunningGuest.start();
    appendFileSync(shownTo(nobodys), `\n${JSON.stringify(settings)}`);
    const ping = await nobodys.fetch("/control/ping", { headers: { "x-sandlot-control": SECRET } });
    expect(ping.status).toBe(204);
    rmSync(shownTo(nobodys));
    expect((await nobodys.fetch("/envs")).status).toBe(401);
  });

  test.each(["{", JSON.stringify(settings).slice(0, -9), "null", '{"accessTokens":[]}'])(
    "that are incomplete block all requests: %s",
    async (text) => {
      await using nobodys = await RunningGuest.start();
      appendFileSync(shownTo(nobodys), `\n${text}`);
      for (const [_, path, init = {}] of REQUESTS) expect((await nobodys.fetch(path, init)).status).toBe(503);
      writeFileSync(shownTo(nobodys), `${SECRET}\n${JSON.stringify(settings)}`);
      expect((await nobodys.fetch("/envs")).status).toBe(401);
    },
  );
});
