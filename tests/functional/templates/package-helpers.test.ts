/** The SDK's helpers for installing packages and for waiting, in builds with the test's own internet. */
import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, Template, waitForFile, waitForPort, waitForProcess, waitForTimeout, waitForURL } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { packageSourceOfFile } from "../../support/services/package-source.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { buildDockerfile } from "./built-dockerfile.ts";

const BUILD_MS = 120_000;
const { url: URL, folder, variables: SOURCES } = packageSourceOfFile(5080);
const APT_SOURCE = `rm -rf /etc/apt/sources.list.d/*; echo 'deb [trusted=yes] ${URL}/apt ./' > /etc/apt/sources.list`;
const server = sharedServer();

test("apt, pip and npm install packages, and every wait helper works", async () => {
  const ready = [
    waitForPort(8000),
    waitForURL("http://localhost:8000/"),
    waitForProcess("python3"),
    waitForFile("/home/user/up"),
    waitForTimeout(1_000),
  ];
  const template = Template()
    .fromTemplate("base")
    .setEnvs(SOURCES)
    .runCmd(APT_SOURCE, { user: "root" })
    .aptInstall("hello-apt")
    .pipInstall("hello-pip")
    .npmInstall("hello-npm", { g: true })
    .setStartCmd("touch ~/up; exec python3 -m http.server 8000", ready.map((each) => each.getCmd()).join(" && "));
  await Template.build(template, "packages", server().options);
  const sandbox = await Sandbox.create("packages", server().options);
  const { stdout } = await sandbox.commands.run("hello-apt; hello-pip; hello-npm");
  expect(stdout).toBe("hello of apt\nhello of pip\nhello of npm\n");
  expect((await sandbox.commands.run("curl -s -o /dev/null -w %{http_code} localhost:8000/")).stdout).toBe("200");
});

// Guards against Debian's marker with which pip rejects installs, and a folder of npm that belongs to root alone.
test("in a sandbox, pip, npm and apt install usable packages for the user and for root", async () => {
  const sandbox = await Sandbox.create("base", Object.assign({ envs: SOURCES }, server().options));
  const textOf = async (command: string, user = "user") =>
    (await sandbox.commands.run(command, { user, timeoutMs: BUILD_MS })).stdout.trimEnd().split("\n").at(-1);
  // A build installs as root, too.
  for (const as of LONG ? [`sudo --preserve-env=${Object.keys(SOURCES).join()}`, ""] : [""]) {
    expect(await textOf(`${as} npm install -g hello-npm >&2 && hello-npm`)).toBe("hello of npm");
    if (as !== "") await textOf(`${as} npm uninstall -g hello-npm`);
    expect(await textOf(`${as} pip install hello-pip >&2 && hello-pip`)).toBe("hello of pip");
    await textOf(`${as} pip uninstall --yes hello-pip`);
  }
  expect(await textOf("pip install --user hello-pip >&2 && hello-pip && command -v hello-pip")).toBe(
    "/home/user/.local/bin/hello-pip",
  );
  await textOf(APT_SOURCE, "root");
  expect(await textOf("sudo apt-get update >&2 && sudo apt-get install -y hello-apt >&2 && hello-apt")).toBe(
    "hello of apt",
  );
  // Debian's own is below the new one, not removed.
  expect(await textOf("pip install --upgrade pip")).toContain("Successfully installed pip-99.0");
});

test("ADD of a Dockerfile fetches a URL inside the build and verifies its checksum", async () => {
  const bytes = readFileSync(join(folder, "npm/hello.tgz"));
  const checksum = createHash("sha256").update(bytes).digest("hex");
  const added = (sum: string) =>
    `FROM e2bdev/base\nWORKDIR /srv\nADD --checksum=sha256:${sum} --chmod=644 ${URL}/npm/hello.tgz files/\n`;
  await buildDockerfile(server(), { dockerfile: added(checksum), alias: "added" });
  const sandbox = await Sandbox.create("added", server().options);
  expect((await sandbox.commands.run("sha256sum < files/hello.tgz; stat -c %a:%U files/hello.tgz")).stdout).toBe(
    `${checksum}  -\n644:root\n`,
  );
  const wrong = buildDockerfile(server(), { dockerfile: added("0".repeat(64)), alias: "wrong" });
  await expect(wrong).rejects.toThrow("error");
});
