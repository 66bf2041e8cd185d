/** A server that ends during a build leaves a failed build and nothing else. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { Template } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { ociImage, writeLayout } from "../../../src/host/testing/oci-image.ts";
import { OUTSIDE } from "../../../src/host/testing/outer-network.ts";
import { tar } from "../../../src/host/testing/tar.ts";
import { attempt } from "../../../src/system/command.ts";
import { NOTHING, settledCensus } from "../../support/census.ts";
import { newDataFolder, startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { startBadRegistry } from "../../support/services/registry.ts";
import { until } from "../../support/until.ts";

const PORT = 5011;
const folder = foldersOfFile();
/** The log shows the line before it runs; this word appears only in the line's output. */
const slow = () => Template().fromTemplate("base").runCmd('echo be""gun; exec sleep 27182');

/** A build whose first step runs. */
async function underWay(server: TestServer) {
  const build = await Template.buildInBackground(slow(), "slow", server.options);
  const textOf = async () => JSON.stringify(await Template.getBuildStatus(build, server.options));
  await until("the step runs", async () => (await textOf()).includes("begun"));
  return build;
}

async function expectFailed(build: Awaited<ReturnType<typeof underWay>>, server: TestServer, word: string) {
  expect(await Template.getBuildStatus(build, server.options)).toMatchObject({
    status: "error",
    reason: { message: `the server was ${word} while the build was under way; start a new build` },
  });
  expect(await settledCensus(server.dataFolder, NOTHING)).toEqual(NOTHING);
}

describe("the next start", () => {
  const data = folder("build-restart");
  const layout = newDataFolder("build-restart-layout");
  let sender: Awaited<ReturnType<typeof startBadRegistry>>;
  let settings: Record<string, string>;
  let server: TestServer;
  beforeAll(async () => {
    writeLayout(layout, ociImage({ layers: [tar([{ name: "file", content: "x" }])] }));
    sender = await startBadRegistry(layout, OUTSIDE, PORT);
    settings = { SANDLOT_READY: "0", SANDLOT_REGISTRIES: `http://${sender.name}` };
    server = await startServer(data, settings);
  });
  afterAll(async () => {
    await server.stop();
    await sender[Symbol.asyncDispose]();
    rmSync(layout, { recursive: true });
  });

  // A server killed during a step is also among tests/chaos/killed-builds.test.ts.
  const ends = [
    ["stopped", "stopped", () => server.stop()],
    ["killed", "restarted", () => server.crash()],
  ] as const;

  test.each(LONG ? ends : ends.slice(0, 1))(
    "of a server that was %s during a step reports the build as failed",
    async (_how, word, end) => {
      const build = await underWay(server);
      await end();
      server = await startServer(data, settings);
      await expectFailed(build, server, word);
      await Template.build(Template().fromTemplate("base").runCmd("true"), "slow", server.options);
      expect(await settledCensus(data, NOTHING)).toEqual(NOTHING);
    },
  );

  test("of a server that was killed while a registry sent finds no credentials, and fetches again", async () => {
    const from = (repository: string) =>
      Template().fromImage(`${sender.name}/${repository}:1`, { username: "reader", password: "sesame" });
    const build = await Template.buildInBackground(from("private-blob-hangs"), "fetching", server.options);
    await until("it waits for a blob", async () => {
      const request = (await (await fetch(`${sender.url}/asked`)).json()) as string[];
      return request.some((line) => line.startsWith("blobs"));
    });
    await server.crash();
    server = await startServer(data, settings);
    await expectFailed(build, server, "restarted");
    const search = ["grep", "--recursive", "--files-with-matches", "sesame", `/proc/${server.pid}/root${data}`];
    // The result of a search that read everything and found nothing; a file that vanishes meanwhile makes it run again.
    const NONE = { exitCode: 1, stdout: "", stderr: "" };
    let output: unknown;
    const hasReadAll = async () => {
      output = await attempt(search, { timeoutMs: 60_000 });
      return Bun.deepEquals(output, NONE);
    };
    await until("all is read", hasReadAll).catch(() => undefined);
    expect(output).toEqual(NONE);
    await Template.build(from("private-one"), "fetching", server.options);
    expect(await settledCensus(data, NOTHING)).toEqual(NOTHING);
  });
});
