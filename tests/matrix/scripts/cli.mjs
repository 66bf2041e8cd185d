import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { equal, runFeatures } from "./features.mjs";

const env = { ...process.env, NO_UPDATE_NOTIFIER: "1", NO_COLOR: "1", TERM: "xterm-256color" };
const e2b = async (...args) => {
  const command = promisify(execFile)("node_modules/.bin/e2b", args, { env, timeout: 120_000 });
  command.child.stdin.end();
  return (await command).stdout;
};
let id;

await runFeatures({
  "sandbox create": async () => {
    const said = await e2b("sandbox", "create", "base", "--detach");
    [id] = /\bi[a-z0-9]{20}\b/.exec(said) ?? [];
    if (id === undefined) throw new Error(said);
  },
  "sandbox list": async () => {
    const listed = JSON.parse(await e2b("sandbox", "list", "--format", "json"));
    equal(
      listed.some(({ sandboxId, sandboxID }) => (sandboxId ?? sandboxID) === id),
      true,
    );
  },
  "sandbox exec": async () => equal((await e2b("sandbox", "exec", id, "echo", "through")).trim(), "through"),
  "sandbox info": async () => equal((await e2b("sandbox", "info", id)).includes(id), true),
  "sandbox logs": async () => void (await e2b("sandbox", "logs", id)),
  "sandbox metrics": async () => void (await e2b("sandbox", "metrics", id)),
  "sandbox pause": async () => void (await e2b("sandbox", "pause", id)),
  "sandbox resume": async () => void (await e2b("sandbox", "resume", id)),
  "template list": async () => {
    const listed = JSON.parse(await e2b("template", "list", "--format", "json"));
    equal(Array.isArray(listed), true);
  },
  "sandbox kill": async () => void (await e2b("sandbox", "kill", id)),
});
