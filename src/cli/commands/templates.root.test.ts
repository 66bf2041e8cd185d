/** `sandlot templates` on its own store, without a server. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { aBuild, NOW, template } from "../../store/testing/rows.ts";
import { commandOnStore } from "../testing/command-on-store.ts";

const [BASE, WEB] = ["basetemplate00000000", "webtemplate000000000"];
const MIB = 1024 * 1024;

const sandlot = commandOnStore(async (store, folder) => {
  const teamId = (await store.people.teamBySlug("default"))?.id ?? "";
  await store.templates.add(template(BASE));
  await store.templates.addAlias("", "base", BASE);
  await store.templates.add({ ...template(WEB), teamId, createdAt: NOW + 1 });
  await store.templates.addAlias("default", "web", WEB);
  await store.templates.noteSpawn(WEB, NOW);
  await store.transaction(async ({ builds }) => {
    await builds.addFinished(aBuild("b0", BASE));
    // Two builds of one result.
    await builds.addFinished(aBuild("b1", WEB, { image: "image-1" }));
    await builds.addFinished(aBuild("b2", WEB, { image: "image-1" }));
    const { id, ...wanted } = aBuild("b3", WEB);
    await builds.request({ id, ...wanted });
  });
  const image = join(folder, "disks/images/image-1");
  mkdirSync(image, { recursive: true });
  writeFileSync(join(image, "image.json"), JSON.stringify({ bytes: 41.5 * MIB }));
});
const templates = (...args: string[]) => sandlot("templates", ...args);

const base = `${BASE}  base  team=(built in)  builds=1/1  ready=(setting)  wall=(setting)  started=0  last=never  disk=0MB`;
const web = (ready: number, wall = "(setting)") =>
  `${WEB}  default/web  team=default  builds=2/3  ready=${ready}  wall=${wall}  started=1  last=${new Date(NOW).toISOString()}`;
const all = "all images 42MB, checkpoints 0MB, layers 0MB";

test("lists templates with names, builds and disk use, and sets the ready number", async () => {
  expect(await templates()).toEqual({ code: 0, out: [base, `${web(0)}  disk=42MB`, all], error: "" });
  expect(await templates("ready", "web", "64")).toEqual({ code: 0, out: [web(64)], error: "" });
  expect((await templates()).out).toEqual([base, `${web(64)}  disk=42MB`, all]);
  expect((await templates("ready", "default/web", "0")).out).toEqual([web(0)]);
});

test("sets the isolation runtime of a template, also of a built-in one", async () => {
  expect((await templates("wall", "web", "runsc")).out).toEqual([web(0, "runsc")]);
  expect((await templates("wall", "base", "crun")).out[0]).toContain("wall=crun");
  expect((await templates("wall", "web", "default")).out).toEqual([web(0)]);
  expect((await templates("wall", "base", "default")).out[0]).toContain("wall=(setting)");
});

test("changes are in the audit log", async () => {
  const { out } = await sandlot("audit", "--limit", "6");
  const said = out.map((line) => line.replace(/^.*root {2}sandlot /, "").replace(/team=[-0-9a-f]{36}/, "team"));
  expect(said).toEqual([
    `templates wall  template ${BASE}, wall by the setting`,
    `templates wall  team  template ${WEB}, wall by the setting`,
    `templates wall  template ${BASE}, wall crun`,
    `templates wall  team  template ${WEB}, wall runsc`,
    `templates ready  team  template ${WEB}, ready 0`,
    `templates ready  team  template ${WEB}, ready 64`,
  ]);
});

test("rejects invalid arguments and changes nothing", async () => {
  const { out: before } = await templates();
  for (const [args, message] of [
    [["ready", "web", "65"], 'from 0 to 64, not "65"'],
    [["ready", "web", "-1"], 'has no option "-1"'],
    [["ready", "web", "two"], 'not "two"'],
    [["ready", "web"], "ready NAME COUNT"],
    [["ready", "web", "1", "2"], "ready NAME COUNT"],
    [["list"], "ready NAME COUNT"],
    [["build"], "templates build: NAME... is missing"],
    [["build", "nothing"], 'no template "nothing" comes with Sandlot. Those that do: code-interpreter-v1'],
    // Nothing is built if one of the names is unknown.
    [["build", "code-interpreter-v1", "nothing"], 'no template "nothing"'],
    [["ready", "base", "1"], "SANDLOT_READY"],
    [["wall", "web", "docker"], 'crun or runsc, or default for the setting, not "docker"'],
    [["ready", "nothing", "1"], 'no template "nothing"'],
  ] as const) {
    const { code, error } = await templates(...args);
    expect([code, error]).toEqual([1, expect.stringContaining(message)]);
  }
  expect((await templates()).out).toEqual(before);
});
