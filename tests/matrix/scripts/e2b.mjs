import * as e2b from "e2b";
import { equal, orAbsent, runFeatures, until } from "./features.mjs";

const { Sandbox } = e2b;
const LIFE = { timeoutMs: 900_000 };
const name = `matrix-${Date.now()}`;
const text = async (box, command) => (await box.commands.run(command)).stdout.trim();
let sandbox;

await runFeatures({
  create: async () => {
    sandbox = await Sandbox.create({ ...LIFE, metadata: { name }, envs: { COLOUR: "green" } });
    equal(await text(sandbox, "echo $COLOUR"), "green");
  },
  list: async () => {
    const found = await Sandbox.list({ query: { metadata: { name } } }).nextItems();
    equal(
      found.map(({ sandboxId }) => sandboxId),
      [sandbox.sandboxId],
    );
  },
  info: async () => equal((await sandbox.getInfo()).sandboxId, sandbox.sandboxId),
  timeout: async () => {
    await sandbox.setTimeout(1_000_000);
    if ((await sandbox.getInfo()).endAt.getTime() < Date.now() + 900_000) throw new Error("the end did not move");
  },
  commands: async () => {
    const failure = await sandbox.commands.run("echo no >&2; exit 3").catch((error) => error);
    equal([failure.exitCode, failure.stderr], [3, "no\n"]);
    const handle = await sandbox.commands.run("cat", { background: true, stdin: true });
    await sandbox.commands.sendStdin(handle.pid, "typed\n");
    await until(() => handle.stdout === "typed\n");
    equal(
      (await sandbox.commands.list()).some(({ pid }) => pid === handle.pid),
      true,
    );
    equal(await handle.kill(), true);
  },
  terminals: async () => {
    let screen = "";
    const onData = (bytes) => {
      screen += new TextDecoder().decode(bytes);
    };
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData });
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode("echo sum-$((40 + 2))\n"));
    await until(() => screen.includes("sum-42"));
    await sandbox.pty.kill(terminal.pid);
  },
  files: async () => {
    await sandbox.files.write("folder/a.txt", "one");
    equal(await sandbox.files.read("folder/a.txt"), "one");
    await sandbox.files.rename("folder/a.txt", "folder/b.txt");
    equal(
      (await sandbox.files.list("folder")).map((entry) => entry.name),
      ["b.txt"],
    );
    await sandbox.files.remove("folder/b.txt");
    equal(await sandbox.files.exists("folder/b.txt"), false);
  },
  watch: async () => {
    const seen = [];
    await sandbox.files.makeDir("watched");
    const handle = await sandbox.files.watchDir("watched", (event) => void seen.push(event.name));
    await sandbox.files.write("watched/new", "x");
    await until(() => seen.includes("new"));
    await handle.stop();
  },
  git: async () => {
    const git = orAbsent(sandbox.git);
    await git.init("repository");
    equal((await git.status("repository")).isClean ?? true, true);
  },
  "signed links": async () => {
    await sandbox.files.write("linked", "by link");
    equal(await (await fetch(await sandbox.downloadUrl("linked"))).text(), "by link");
  },
  ports: async () => {
    await sandbox.commands.run("mkdir -p www; echo served > www/page", {});
    await sandbox.commands.run("python3 -m http.server 8000 -d www", { background: true, timeoutMs: 0 });
    const visit = () => fetch(`https://${sandbox.getHost(8000)}/page`);
    await until(async () => (await visit()).status !== 502);
    equal(await (await visit()).text(), "served\n");
  },
  metrics: async () => until(async () => (await sandbox.getMetrics())[0]?.memTotal > 0),
  "network rules": async () => {
    orAbsent(sandbox.updateNetwork);
    await sandbox.updateNetwork({ denyOut: ["0.0.0.0/0"] });
  },
  "pause and connect": async () => {
    const handle = await sandbox.commands.run("sleep 3600", { background: true, timeoutMs: 0 });
    await (sandbox.pause ?? sandbox.betaPause).call(sandbox);
    sandbox = await Sandbox.connect(sandbox.sandboxId, LIFE);
    equal(
      (await sandbox.commands.list()).some(({ pid }) => pid === handle.pid),
      true,
    );
  },
  snapshot: async () => {
    orAbsent(sandbox.createSnapshot);
    await sandbox.files.write("kept", "in the snapshot");
    const { snapshotId } = await sandbox.createSnapshot();
    const copy = await Sandbox.create(snapshotId, LIFE);
    equal(await copy.files.read("kept"), "in the snapshot");
    await copy.kill();
  },
  fork: async () => {
    orAbsent(sandbox.fork);
    const [copy] = await sandbox.fork(LIFE);
    equal(await text(copy, "echo copied"), "copied");
    await copy.kill();
  },
  volumes: async () => {
    const Volume = orAbsent(e2b.Volume);
    const volume = await Volume.create(name);
    await volume.writeFile("/shared", "on the volume");
    const mounted = await Sandbox.create({ ...LIFE, volumeMounts: { "/data": volume } });
    equal(await text(mounted, "cat /data/shared"), "on the volume");
    await mounted.kill();
    await Volume.destroy(volume.volumeId);
  },
  templates: async () => {
    const { Template } = e2b;
    await Template.build(orAbsent(Template)().fromTemplate("base").runCmd("echo built > /home/user/mark"), {
      alias: name,
      cpuCount: 1,
      memoryMB: 512,
    });
    const built = await Sandbox.create(name, LIFE);
    equal(await text(built, "cat mark"), "built");
    await built.kill();
  },
  kill: async () => equal(await Sandbox.kill(sandbox.sandboxId), true),
});
