/**
 * A sandbox restored by CRIU is isolated like a booted one: first compared item by item, from inside and from outside,
 * then attacked in the same ways. SANDLOT_TEST_LONG=1 attacks each of its lives; otherwise the fork alone is attacked.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { LONG } from "../../src/base/testing/long.ts";
import { cgroupTrees } from "../../src/system/cgroup/cgroups.ts";
import { run } from "../../src/system/command.ts";
import { DataFolder } from "../../src/system/data-folder.ts";
import { ID_COUNT } from "../../src/system/id-range.ts";
import { recordOf } from "../support/inside.ts";
import { startListening } from "../support/listening.ts";
import { serverOfFile } from "../support/server-of-file.ts";
import { brought, forked, resumed } from "./attacks/ways-to-start.ts";
import { testIsolation } from "./isolation.ts";
import { testNetworkIsolation } from "./network-isolation.ts";

const LIFE = { timeoutMs: 600_000 };
/** Files of a cgroup that tell, or do something, rather than hold. */
const NO_LIMIT =
  /procs$|tasks$|threads$|usage|failcnt|force_empty|event_control|freezer|pressure|stat$|reclaim|peak$|kill$|reset|clear_refs/;

const server = serverOfFile("restored-isolation", { SANDLOT_READY: "0" });

const create = (more: { allowInternetAccess?: boolean } = {}) =>
  Sandbox.create({ ...server().options, ...LIFE, ...more });

/** The isolation as the sandbox sees it; its user ids on the machine, which differ, by their positions. */
async function fromInside(sandbox: Sandbox): Promise<unknown> {
  const { stdout } = await sandbox.commands.run("python3 /tmp/portrait.py", { user: "root" });
  const { firstId = 0 } = recordOf(new DataFolder(server().dataFolder), sandbox.sandboxId);
  const placeOf = (id: number) => (id >= firstId && id < firstId + ID_COUNT ? `own+${id - firstId}` : String(id));
  return JSON.parse(stdout, (_, value) =>
    typeof value === "string" ? value.replaceAll(/\d{10}/g, (id) => placeOf(Number(id))) : value,
  );
}

/** And as the machine sees it. */
async function fromOutside(sandbox: Sandbox): Promise<unknown> {
  const { pid, cgroup } = recordOf(new DataFolder(server().dataFolder), sandbox.sandboxId);
  const limits: Record<string, string> = {};
  for (const folder of cgroupTrees().map((tree) => join(tree, cgroup))) {
    // A tree that no controller has is not the sandbox's.
    for (const name of existsSync(folder) ? readdirSync(folder) : []) {
      const path = join(folder, name);
      const isSetting = statSync(path).isFile() && (statSync(path).mode & 0o600) === 0o600;
      if (isSetting && !NO_LIMIT.test(name)) limits[path.replace(cgroup, "")] = readFileSync(path, "utf8");
    }
  }
  const namespaces = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "time"];
  const shared = namespaces.filter(
    (name) => readlinkSync(`/proc/${pid}/ns/${name}`) === readlinkSync(`/proc/self/ns/${name}`),
  );
  const rules = await run(["nsenter", `--net=/proc/${pid}/ns/net`, "--", "nft", "list", "ruleset"]);
  return { limits, shared, rules };
}

describe.each(["resumed", "forked", "from a snapshot"] as const)("a sandbox, %s", (life) => {
  let sandbox: Sandbox;
  let booted: { inside: unknown; outside: unknown };
  beforeAll(async () => {
    const original = await create();
    const portrait = await Bun.file(join(import.meta.dir, "../support/services/portrait.py")).text();
    await original.files.write("/tmp/portrait.py", portrait);
    // With connections to itself: the rule that holds packets back during a restore must be gone afterwards.
    await startListening(original, "exec python3 -u -m http.server 8000");
    await startListening(
      original,
      `exec python3 -uc 'import socket, time; s = socket.create_connection(("127.0.0.1", 8000)); print("up"); time.sleep(900)'`,
    );
    booted = { inside: await fromInside(original), outside: await fromOutside(original) };
    sandbox = await brought(life, original, server().options);
  });

  test("sees the same environment as before", async () => {
    expect(await fromInside(sandbox)).toEqual(booted.inside);
  });

  test("has the same limits, and no rule left from the restore", async () => {
    expect(await fromOutside(sandbox)).toEqual(booted.outside);
    expect(booted.outside).toMatchObject({ shared: [], rules: "" });
  });

  if (LONG || life === "forked") testIsolation({ runtime: "crun", life, server, sandbox: () => sandbox });
});

describe("the network of resumed sandboxes and of a fork", () => {
  testNetworkIsolation(server, async () => {
    const [first, second, third] = await Promise.all([create(), create({ allowInternetAccess: false }), create()]);
    return { open: await forked(first), offline: await resumed(second), neighbour: await resumed(third) };
  });
});

test("a fork, and a sandbox resumed twice, without internet access have none", async () => {
  const offline = await create({ allowInternetAccess: false });
  const look = "curl -sS --connect-timeout 2 http://93.184.215.14/ 2>&1 || true";
  for (const sandbox of [offline, await resumed(await resumed(offline)), await forked(offline)]) {
    expect((await sandbox.commands.run(look)).stdout).not.toContain("hello");
    expect((await sandbox.getInfo()).allowInternetAccess).toBe(false);
  }
});
