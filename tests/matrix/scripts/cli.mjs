import { execFile, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { Absent, equal, runFeatures, until } from "./features.mjs";

const env = { ...process.env, NO_UPDATE_NOTIFIER: "1", NO_COLOR: "1", TERM: "xterm-256color" };
const IDS = /\bi[a-z0-9]{20}\b/;
const PROGRAM = "node_modules/.bin/e2b";
const api = `https://api.${env.E2B_DOMAIN}`;
const name = `matrix-${Date.now()}`;
// A login needs no variable, and no program that opens a browser.
const { E2B_API_KEY: _, E2B_ACCESS_TOKEN: accessToken, ...others } = env;
const loginEnv = { ...others, PATH: "", E2B_DOCS_BASE: `${api}/docs` };

async function program(args, options = {}, input = "") {
  const command = promisify(execFile)(process.execPath, [PROGRAM, ...args], { env, timeout: 120_000, ...options });
  command.child.stdin.end(input);
  return (await command).stdout;
}

const e2b = (...args) => program(args);
const auth = (command, input) => program(["auth", command], { env: loginEnv }, input);

// Signs in on the pages of the server as a browser does, and returns to the command.
async function signIn(address) {
  const cookies = new Map();
  const ask = async (url, fields) => {
    const cookie = [...cookies].map(([key, value]) => `${key}=${value}`).join("; ");
    const sent = fields ? { method: "POST", body: new URLSearchParams(fields) } : {};
    const response = await fetch(url, { ...sent, headers: { cookie }, redirect: "manual" });
    for (const line of response.headers.getSetCookie()) {
      const [, key, value] = /^([^=]+)=([^;]*)/.exec(line);
      cookies.set(key, value);
    }
    return { text: await response.text(), location: response.headers.get("location") };
  };
  const fieldOf = ({ text }, field) => new RegExp(`name="${field}" value="([^"]*)"`).exec(text)[1];
  const form = fieldOf(await ask(address), "form");
  const grant = fieldOf(await ask(`${api}/login`, { form, secret: accessToken }), "grant");
  const { location } = await ask(`${api}/login/allow`, { grant, decision: "allow" });
  await fetch(location);
}

const stateOf = async (sandbox) => JSON.parse(await e2b("sandbox", "info", sandbox, "--format", "json")).state;
async function templateOf(alias) {
  const listed = JSON.parse(await e2b("template", "list", "--format", "json"));
  return listed.find(({ aliases }) => aliases?.includes(alias));
}

let id;
let template;

await runFeatures({
  "sandbox create": async () => {
    const said = await e2b("sandbox", "create", "base", "--detach");
    [id] = IDS.exec(said) ?? [];
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
  "sandbox logs": async () => until(async () => (await e2b("sandbox", "logs", id, "--format", "json")).includes("{")),
  "sandbox metrics": async () => until(async () => (await e2b("sandbox", "metrics", id)).includes("CPU")),
  "sandbox pause": async () => {
    await e2b("sandbox", "pause", id);
    equal(await stateOf(id), "paused");
  },
  "sandbox resume": async () => {
    await e2b("sandbox", "resume", id);
    equal(await stateOf(id), "running");
  },
  "template list": async () => equal((await templateOf("desktop")).public, true),
  "template create": async () => {
    await mkdir("context", { recursive: true });
    await writeFile("context/Dockerfile", "FROM e2bdev/base\nRUN echo built > /home/user/mark\n");
    await e2b("template", "create", name, "--path", "context", "--cpu-count", "1", "--memory-mb", "512");
    template = (await templateOf(name)).templateID;
    const [made] = IDS.exec(await e2b("sandbox", "create", name, "--detach"));
    equal((await e2b("sandbox", "exec", made, "cat /home/user/mark")).trim(), "built");
    await e2b("sandbox", "kill", made);
  },
  "template publish": async () => {
    await e2b("template", "publish", template, "--yes");
    equal((await templateOf(name)).public, true);
  },
  "template unpublish": async () => {
    await e2b("template", "unpublish", template, "--yes");
    equal((await templateOf(name)).public, false);
  },
  "template delete": async () => {
    await e2b("template", "delete", template, "--yes");
    equal(await templateOf(name), undefined);
  },
  "sandbox connect": async () => {
    // `script` gives the command a terminal.
    const command = `${process.execPath} ${PROGRAM} sandbox connect ${id}`;
    const child = spawn("script", ["-qec", command, "/dev/null"], { env, stdio: ["pipe", "pipe", "inherit"] });
    let screen = "";
    child.stdout.on("data", (bytes) => {
      screen += bytes;
    });
    try {
      await until(() => screen.includes("$ "));
      child.stdin.write("echo sum-$((40 + 2)); exit\n");
      await until(() => screen.includes("sum-42") && child.exitCode === 0);
    } finally {
      child.kill();
    }
  },
  "auth login": async () => {
    const child = spawn(process.execPath, [PROGRAM, "auth", "login"], {
      env: loginEnv,
      stdio: ["ignore", "pipe", "inherit"],
    });
    let said = "";
    let signedIn;
    for await (const bytes of child.stdout) {
      said += bytes;
      const address = /https:\S+\/docs\/api\/cli\?next=\S+(?=\n)/.exec(said)?.[0];
      if (address) signedIn ??= signIn(address).catch((error) => child.kill() && error);
    }
    equal([await signedIn, said.includes("Logged in as")].map(String), ["undefined", "true"]);
  },
  "auth info": async () => equal((await auth("info")).includes("logged in as"), true),
  "auth configure": async () => {
    equal((await auth("configure", "\n")).includes("selected"), true);
    const listed = await program(["sandbox", "list", "--format", "json"], { env: loginEnv });
    equal(listed.includes(id), true);
  },
  "auth logout": async () => {
    await auth("logout");
    equal((await auth("info")).includes("Not logged in"), true);
  },
  "sandbox snapshot": async () => {
    if (!(await e2b("sandbox", "--help")).includes("snapshot")) throw new Absent();
    const [snapshot] = /[a-z0-9]{20}:default/.exec(await e2b("sandbox", "snapshot", "create", id));
    equal((await e2b("sandbox", "snapshot", "list")).includes(snapshot.split(":")[0]), true);
    await e2b("sandbox", "snapshot", "delete", snapshot);
    equal((await e2b("sandbox", "snapshot", "list")).includes(snapshot.split(":")[0]), false);
  },
  "sandbox kill": async () => {
    await e2b("sandbox", "kill", id);
    equal((await e2b("sandbox", "list", "--format", "json")).includes(id), false);
  },
});
