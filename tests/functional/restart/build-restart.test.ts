/** A server that ends during a build leaves a failed build and nothing else. */
import { expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { Template } from "e2b";
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
  const said = async () => JSON.stringify(await Template.getBuildStatus(build, server.options));
  await until("the step runs", async () => (await said()).includes("begun"), 60_000);
  return build;
}

async function expectFailed(build: Awaited<ReturnType<typeof underWay>>, server: TestServer, word: string) {
  expect(await Template.getBuildStatus(build, server.options)).toMatchObject({
    status: "error",
    reason: { message: `the server was ${word} while the build was under way; start a new build` },
  });
  expect(await settledCensus(server.dataFolder, NOTHING)).toEqual(NOTHING);
}

test.each([
  ["killed", "restarted", (server: TestServer) => server.crash()],
  ["stopped", "stopped", (server: TestServer) => server.stop()],
] as const)("a server that is %s", async (name, word, end) => {
  const data = folder(`build-${name}`);
  const first = await startServer(data, { SANDLOT_READY: "0" });
  const build = await underWay(first);
  await end(first);
  const second = await startServer(data, { SANDLOT_READY: "0" });
  await expectFailed(build, second, word);
  await Template.build(Template().fromTemplate("base").runCmd("true"), "slow", second.options);
  expect(await settledCensus(data, NOTHING)).toEqual(NOTHING);
  await second.stop();
});

test("a server that is killed while a registry sends leaves no credentials, and fetches again", async () => {
  const data = folder("build-fetching");
  const layout = newDataFolder("build-fetching-layout");
  writeLayout(layout, ociImage({ layers: [tar([{ name: "file", content: "x" }])] }));
  await using registry = await startBadRegistry(layout, OUTSIDE, PORT);
  const settings = { SANDLOT_READY: "0", SANDLOT_REGISTRIES: `http://${registry.name}` };
  const from = (repository: string) =>
    Template().fromImage(`${registry.name}/${repository}:1`, { username: "reader", password: "sesame" });
  const first = await startServer(data, settings);
  const build = await Template.buildInBackground(from("private-blob-hangs"), "fetching", first.options);
  await until("it waits for a blob", async () => {
    const asked = (await (await fetch(`${registry.url}/asked`)).json()) as string[];
    return asked.some((line) => line.startsWith("blobs"));
  });
  await first.crash();
  const second = await startServer(data, settings);
  await expectFailed(build, second, "restarted");
  const search = ["grep", "--recursive", "--files-with-matches", "sesame", `/proc/${second.pid}/root${data}`];
  // The result of a search that read everything and found nothing; a file that vanishes meanwhile makes it run again.
  const NONE = { exitCode: 1, stdout: "", stderr: "" };
  let said: unknown;
  const hasReadAll = async () => {
    said = await attempt(search, { timeoutMs: 60_000 });
    return Bun.deepEquals(said, NONE);
  };
  await until("all is read", hasReadAll).catch(() => undefined);
  expect(said).toEqual(NONE);
  await Template.build(from("private-one"), "fetching", second.options);
  expect(await settledCensus(data, NOTHING)).toEqual(NOTHING);
  await second.stop();
  rmSync(layout, { recursive: true });
});
