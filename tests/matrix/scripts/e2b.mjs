import * as e2b from "e2b";
import { equal, orAbsent, runFeatures, until } from "./features.mjs";

const { Sandbox } = e2b;
const LIFE = { timeoutMs: 900_000 };
const name = `matrix-${Date.now()}`;
const text = async (box, command) => (await box.commands.run(command)).stdout.trim();
const visit = (box, headers) => fetch(`https://${box.getHost(8000)}/page`, { headers });
const pause = (box) => (box.pause ?? box.betaPause).call(box);
let sandbox;
let templateId;

async function startSite(box) {
  await box.commands.run("mkdir -p www; echo served > www/page");
  await box.commands.run("python3 -m http.server 8000 -d www", { background: true, timeoutMs: 0 });
  const headers = box.trafficAccessToken ? { "e2b-traffic-access-token": box.trafficAccessToken } : {};
  await until(async () => (await visit(box, headers)).status === 200);
}

await runFeatures({
  create: async () => {
    sandbox = await Sandbox.create({ ...LIFE, metadata: { name }, envs: { COLOUR: "green" } });
    equal(await text(sandbox, "echo $COLOUR"), "green");
  },
  "list by metadata": async () => {
    const found = async (metadata, state) =>
      (await Sandbox.list({ query: { metadata, state } }).nextItems()).map(({ sandboxId }) => sandboxId);
    equal(await found({ name }, ["running"]), [sandbox.sandboxId]);
    equal([...(await found({ name }, ["paused"])), ...(await found({ name, other: "x" }))], []);
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
    await sandbox.pty.resize(terminal.pid, { cols: 101, rows: 31 });
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode("stty size\n"));
    await until(() => screen.includes("31 101"));
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
  "streamed files": async () => {
    const parts = ["one ", "two ", "three"].map((part) => new TextEncoder().encode(part));
    await sandbox.files.write("streamed", new Blob(parts).stream());
    const read = await sandbox.files.read("streamed", { format: "stream" });
    equal(await new Response(read).text(), "one two three");
    equal((await sandbox.files.read("streamed", { format: "bytes" })).length, 13);
  },
  "metadata of files": async () => {
    await sandbox.files.write("labelled", "x", { metadata: { origin: "matrix" } });
    equal((await sandbox.files.getInfo("labelled")).metadata, { origin: "matrix" });
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
    await git.init("repository", { initialBranch: "main" });
    await sandbox.files.write("repository/file", "one");
    equal((await git.status("repository")).untrackedCount, 1);
    await git.add("repository");
    await git.commit("repository", "First", { authorName: "A", authorEmail: "a@example.com" });
    await git.createBranch("repository", "side");
    const { branches, currentBranch } = await git.branches("repository");
    equal([branches.sort(), currentBranch], [["main", "side"], "side"]);
    equal((await git.status("repository")).isClean, true);
  },
  "signed links": async () => {
    const body = new FormData();
    body.append("file", new Blob(["by link"]), "linked");
    const valid = { useSignatureExpiration: 60 };
    equal((await fetch(await sandbox.uploadUrl("linked", valid), { method: "POST", body })).status, 200);
    const link = await sandbox.downloadUrl("linked", valid);
    equal(await (await fetch(link)).text(), "by link");
    equal((await fetch(link.replace("linked", "another"))).status, 401);
  },
  ports: async () => {
    await startSite(sandbox);
    equal(await (await visit(sandbox)).text(), "served\n");
  },
  "private URLs": async () => {
    const closed = await Sandbox.create({ ...LIFE, network: { allowPublicTraffic: false } });
    await startSite(closed);
    equal((await visit(closed)).status, 403);
    equal((await visit(closed, { "e2b-traffic-access-token": "guess" })).status, 403);
    await closed.kill();
  },
  "wake on traffic": async () => {
    const lifecycle = { onTimeout: "pause", autoResume: true };
    const sleeper = await Sandbox.create({ ...LIFE, lifecycle });
    await startSite(sleeper);
    await pause(sleeper);
    equal((await sleeper.getInfo()).state, "paused");
    equal(await (await visit(sleeper)).text(), "served\n");
    equal((await sleeper.getInfo()).state, "running");
    await sleeper.kill();
  },
  metrics: async () => until(async () => (await sandbox.getMetrics())[0]?.memTotal > 0),
  "network rules": async () => {
    orAbsent(sandbox.updateNetwork);
    await sandbox.updateNetwork({ denyOut: ["0.0.0.0/0"], allowOut: ["example.com"] });
    const { denyOut, allowOut } = (await sandbox.getInfo()).network;
    equal([denyOut, allowOut], [["0.0.0.0/0"], ["example.com"]]);
    await sandbox.updateNetwork({});
    equal((await sandbox.getInfo()).network?.denyOut ?? [], []);
  },
  secrets: async () => {
    const Secret = orAbsent(e2b.Secret);
    await Secret.create(name, "hidden value");
    const headers = { Authorization: Secret.fill(name) };
    await sandbox.updateNetwork({ rules: { "example.com": [{ transform: { headers } }] } });
    const { rules } = (await sandbox.getInfo()).network;
    equal(rules["example.com"][0].transform.headers, headers);
    equal([(await Secret.update(name, "another")).version, await Secret.exists(name)], [2, true]);
    equal(
      (await Secret.list().nextItems()).some((secret) => secret.name === name),
      true,
    );
    equal([await Secret.destroy(name), await Secret.exists(name)], [true, false]);
    await sandbox.updateNetwork({});
  },
  "pause and connect": async () => {
    const handle = await sandbox.commands.run("sleep 3600", { background: true, timeoutMs: 0 });
    await pause(sandbox);
    sandbox = await Sandbox.connect(sandbox.sandboxId, LIFE);
    equal(
      (await sandbox.commands.list()).some(({ pid }) => pid === handle.pid),
      true,
    );
  },
  "pause without memory": async () => {
    const rebooted = await Sandbox.create(LIFE);
    await rebooted.files.write("kept", "on disk");
    await rebooted.commands.run("sleep 3600", { background: true, timeoutMs: 0 });
    await rebooted.pause({ keepMemory: false });
    await rebooted.connect(LIFE);
    equal([await rebooted.files.read("kept"), await text(rebooted, "pgrep -c sleep || true")], ["on disk", "0"]);
    await rebooted.kill();
  },
  snapshot: async () => {
    orAbsent(sandbox.createSnapshot);
    await sandbox.files.write("kept", "in the snapshot");
    const { snapshotId } = await sandbox.createSnapshot();
    const copy = await Sandbox.create(snapshotId, LIFE);
    equal(await copy.files.read("kept"), "in the snapshot");
    await copy.kill();
    const kept = async () => (await sandbox.listSnapshots().nextItems()).map((each) => each.snapshotId);
    equal(await kept(), [snapshotId]);
    await Sandbox.deleteSnapshot(snapshotId);
    equal(await kept(), []);
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
    await mounted.commands.run("echo changed > /data/shared");
    await mounted.kill();
    equal(await volume.readFile("/shared"), "changed\n");
    const listed = async () => (await Volume.list()).some((each) => each.name === name);
    equal([await listed(), await Volume.destroy(volume.volumeId), await listed()], [true, true, false]);
  },
  templates: async () => {
    const { Template } = e2b;
    const build = await Template.build(
      orAbsent(Template)().fromTemplate("base").runCmd("echo built > /home/user/mark"),
      {
        alias: name,
        cpuCount: 1,
        memoryMB: 512,
      },
    );
    ({ templateId } = build);
    const built = await Sandbox.create(name, LIFE);
    equal(await text(built, "cat mark"), "built");
    await built.kill();
  },
  "tags of templates": async () => {
    const { Template } = e2b;
    orAbsent(Template?.assignTags);
    equal([await Template.exists(name), await Template.exists(`${name}-other`)], [true, false]);
    await Template.assignTags(`${name}:default`, "stable");
    equal((await Template.getTags(templateId)).map(({ tag }) => tag).sort(), ["default", "stable"]);
    const tagged = await Sandbox.create(`${name}:stable`, LIFE);
    equal(await text(tagged, "cat mark"), "built");
    await tagged.kill();
    await Template.removeTags(name, "stable");
    equal(
      (await Template.getTags(templateId)).map(({ tag }) => tag),
      ["default"],
    );
  },
  MCP: async () => {
    const gateway = await Sandbox.create({ ...LIFE, mcp: { memory: {} } });
    const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name, version: "1" } };
    const call = (token) =>
      fetch(gateway.getMcpUrl(), {
        method: "POST",
        headers: {
          authorization: `Bearer ${token}`,
          accept: "application/json, text/event-stream",
          "content-type": "application/json",
        },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params }),
      });
    const answer = await call(await gateway.getMcpToken());
    equal([answer.status, (await answer.text()).includes("serverInfo")], [200, true]);
    equal((await call("guess")).status, 401);
    await gateway.kill();
  },
  kill: async () => equal(await Sandbox.kill(sandbox.sandboxId), true),
});
