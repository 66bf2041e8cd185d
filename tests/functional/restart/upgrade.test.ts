/** An upgrade in place, from the reference version: nothing that its server made is lost. */
import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { Sandbox, Template, Volume } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { counting, expectCounting } from "../../support/counting.ts";
import { referenceVersion } from "../../support/reference-version.ts";
import { newDataFolder, startServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";

const folder = foldersOfFile();
const earlier = `${newDataFolder("reference")}-files`;
afterAll(() => rmSync(earlier, { recursive: true, force: true }));

test.skipIf(!LONG)(
  "after an upgrade in place, sandboxes, templates, volumes, webhooks and keys are as before",
  async () => {
    const project = await referenceVersion(earlier);
    if (project === undefined) {
      console.warn("SKIPPED: this clone lacks the commit of the reference version, and its origin does not serve it");
      return;
    }
    const data = folder("upgrade");
    const settings = { SANDLOT_READY: "0" };
    const old = await startServer(data, settings, undefined, project);
    const day = { ...old.options, timeoutMs: 3_600_000 };
    const at = { apiUrl: old.url };
    const volume = await Volume.create("shared", old.options);
    await volume.writeFile("/from-before", "content", at);
    const running = await Sandbox.create({ ...day, volumeMounts: { "/mnt/shared": volume } });
    await counting(running);
    const paused = await Sandbox.create(day);
    await counting(paused);
    const [forked] = await paused.fork({ timeoutMs: 3_600_000 });
    if (!(forked instanceof Sandbox)) throw forked ?? new Error("there is no fork");
    const { snapshotId } = await paused.createSnapshot();
    await paused.pause();
    await Template.build(Template().fromTemplate("base").runCmd("echo built > /tmp/built"), "made", old.options);
    const hook = { name: "ours", url: "https://hooks.example.com/", events: ["sandbox.lifecycle.created"] };
    const made = await old.call("POST", "/events/webhooks", { ...hook, signatureSecret: "s".repeat(32) });
    expect(made.status).toBe(201);
    const guest = (await running.getInfo()).envdVersion;
    expect(await old.stop()).toBe(0);

    const server = await startServer(data, settings);
    const { options } = server;
    expect(server.apiKey).toBe(old.apiKey);
    const connected = await Sandbox.connect(running.sandboxId, options);
    await expectCounting(connected);
    expect((await connected.getInfo()).envdVersion).toBe(guest);
    expect(await connected.files.read("/mnt/shared/from-before")).toBe("content");
    await expectCounting(await Sandbox.connect(paused.sandboxId, options));
    await expectCounting(await Sandbox.connect(forked.sandboxId, options));
    await expectCounting(await Sandbox.create(snapshotId, options));
    const fromTemplate = await Sandbox.create("made", options);
    expect(await fromTemplate.files.read("/tmp/built")).toBe("built\n");
    expect((await server.call("GET", "/events/webhooks")).body).toMatchObject([{ name: "ours", url: hook.url }]);
    // The sandboxes of before can be paused by the new server.
    await connected.pause();
    await expectCounting(await Sandbox.connect(running.sandboxId, options));
    await server.stop();
  },
);
