// biome-ignore-all lint/suspicious/noTemplateCurlyInString: shells write their variables so.
/** Templates that start from an image: the SDK's default image, Dockerfiles on the server and of the CLI. */
import { beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, Template } from "e2b";
import { folderOfFile } from "../../../src/base/testing/test-folder.ts";
import { cliOfFile } from "../../support/e2b-cli.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { buildDockerfile } from "./built-dockerfile.ts";

const server = sharedServer();
const cli = cliOfFile(server);
const context = folderOfFile("images");
beforeAll(() => writeFileSync(join(context, "one.txt"), "one\n"));

async function inside(name: string, line: string): Promise<string> {
  const sandbox = await Sandbox.create(name, server().options);
  try {
    return (await sandbox.commands.run(line)).stdout.trim();
  } finally {
    await sandbox.kill();
  }
}

test("the SDK's default image is the built-in template, and the SDK builds a Dockerfile on it", async () => {
  const { options } = server();
  await Template.build(Template().fromBaseImage().runCmd("echo made > ~/made"), "by-default", options);
  expect(await inside("by-default", "id -un; pwd; cat made")).toBe("user\n/home/user\nmade");
  const dockerfile = "FROM e2bdev/base\nENV A=1\nWORKDIR /srv\nCOPY one.txt .\nRUN cat one.txt > two.txt";
  await Template.build(Template({ fileContextPath: context }).fromDockerfile(dockerfile), "by-file", options);
  expect(await inside("by-file", "id -un; pwd; echo $A; cat two.txt")).toBe("user\n/srv\n1\none");
});

describe("a Dockerfile", () => {
  test("is built on the server, with its start command", async () => {
    const dockerfile = [
      "ARG BASE=e2bdev/base",
      "FROM $BASE",
      "ARG WORD=hello",
      "ENV PATH=/opt/tools:$PATH GREETING=$WORD",
      "WORKDIR /home/user/site",
      'RUN ["sh", "-c", "echo $WORD > index.html"]',
      "RUN <<EOF",
      "mkdir -p /opt/tools",
      "printf '#!/bin/sh\\necho $GREETING' > /opt/tools/greet",
      "chmod 755 /opt/tools/greet",
      "EOF",
      'SHELL ["/bin/bash", "-o", "pipefail", "-c"]',
      "RUN ! false | true",
      "RUN greet > greeting",
      "USER user",
      'CMD ["python3", "-m", "http.server", "8000"]',
    ].join("\n");
    const request = { dockerfile, alias: "docker", readyCmd: "curl -sf localhost:8000/", memoryMB: 512 };
    expect(await buildDockerfile(server(), request)).toMatchObject({ memoryMB: 512 });
    expect(
      await inside("docker", "id -un; pwd; cat greeting; curl -s localhost:8000/; echo $GREETING ${WORD:-none}"),
    ).toBe("user\n/home/user/site\nhello\nhello\nhello none");
  });

  test("is built by the command line, with its files", async () => {
    writeFileSync(join(context, "e2b.Dockerfile"), "FROM e2bdev/base\nCOPY one.txt /srv/one.txt\nRUN cat /srv/one.txt");
    const { exitCode, stdout, stderr } = await cli.template(["create", "by-cli", "--cpu-count", "1"], context);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toContain("by-cli");
    expect(await inside("by-cli", "cat /srv/one.txt")).toBe("one");
  });
});
