/** Administration of a real server: endpoints of administrators and the login, and the deletion of a team from disk. */
import { beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, Template, Volume } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { folderOfFile } from "../../../src/base/testing/test-folder.ts";
import { sandlot } from "../../support/sandlot-keys.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { pathsWith } from "../../support/stored-text.ts";
import { until } from "../../support/until.ts";

/** Housekeeping comes every minute. */
const REMOVED_WITHIN_MS = 180_000;
const server = sharedServer();
const context = folderOfFile("planted-files");
let adminToken: string;
beforeAll(async () => {
  adminToken = await sandlot(server(), "admin", "create", "of-tests");
});

async function admin(method: string, path: string, body?: object, token = adminToken) {
  const response = await fetch(`${server().url}${path}`, {
    method,
    headers: { "X-Admin-Token": token, "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
}

/** A new team, and the options of its clients. */
async function newTeam(slug: string) {
  const { teamID } = (await admin("POST", "/admin/teams", { slug })).body;
  const { key: apiKey } = (await admin("POST", `/admin/teams/${teamID}/api-keys`, { name: "of-tests" })).body;
  return { teamID, options: { ...server().options, apiKey } };
}

describe("deleting a team", () => {
  /** No file of the server has this text before the test. */
  const MARK = `planted-${crypto.randomUUID()}`;
  /**
   * The store keeps audit entries of the team, which name its resources; tests of the store look at its rows. Freed
   * blocks of the filesystem of disks are not overwritten, but no file of it has them.
   */
  const NOT_SEARCHED = /^(store\.sqlite.*|disks\.(btrfs|xfs))$/;
  /** Images stay for a minute after their build, and until the next round of housekeeping. */
  const STAYS_FOR_MINUTES = LONG ? undefined : join("disks", "images");

  /** In the data folder, as the server sees its mounts. */
  function stored(texts: readonly string[], skipped?: string): string[] {
    const root = `/proc/${server().pid}/root${server().dataFolder}`;
    return pathsWith(root, texts, (path) => NOT_SEARCHED.test(path) || path === skipped);
  }

  test(
    "leaves no file with its bytes or ids in the data folder, also no cached layer of its builds",
    async () => {
      const { teamID, options } = await newTeam("leaving");
      mkdirSync(context, { recursive: true });
      writeFileSync(join(context, "copied"), MARK);
      const template = Template({ fileContextPath: context })
        .fromTemplate("base")
        .copy("copied", "/srv/copied")
        .setEnvs({ PLANTED: MARK })
        .runCmd(`echo ${MARK} > /srv/written`, { user: "root" });
      const { templateId } = await Template.build(template, "leaving", { ...options, cpuCount: 1, memoryMB: 256 });
      const volume = await Volume.create("leaving", options);
      const volumeMounts = { "/data": volume };
      const sandbox = await Sandbox.create("leaving", { ...options, envs: { PLANTED: MARK }, volumeMounts });
      await sandbox.commands.run(`echo ${MARK} | tee /home/user/own > /data/kept; sync`);
      await sandbox.createSnapshot();
      await sandbox.pause();
      const texts = [MARK, sandbox.sandboxId, templateId, teamID];
      const before = stored(texts).join("\n");
      for (const folder of ["disks/layers/", "disks/images/", "disks/checkpoints/", "volumes/", "blobs/"]) {
        expect(before).toContain(folder);
      }

      expect((await admin("DELETE", `/admin/teams/${teamID}`)).status).toBe(202);
      const teams = async () => JSON.stringify((await admin("GET", "/admin/teams")).body);
      await until("the team is gone", async () => !(await teams()).includes(teamID));
      let left: string[] = [];
      await until(
        "its files are gone",
        () => {
          left = stored(texts, STAYS_FOR_MINUTES);
          return left.length === 0;
        },
        REMOVED_WITHIN_MS,
      ).catch(() => undefined);
      expect(left).toEqual([]);
    },
    2 * REMOVED_WITHIN_MS,
  );
});
