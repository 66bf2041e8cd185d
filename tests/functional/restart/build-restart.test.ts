/** A server that ends in the middle of a build leaves a failed build and nothing else. */
import { expect, test } from "bun:test";
import { Template } from "e2b";
import { NOTHING, settledCensus } from "../../support/census.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const folder = foldersOfFile();
const slow = () => Template().fromTemplate("base").runCmd("echo begun; exec sleep 31416");

/** A build whose first step runs. */
async function underWay(server: TestServer) {
  const build = await Template.buildInBackground(slow(), "slow", server.options);
  const said = async () => JSON.stringify(await Template.getBuildStatus(build, server.options));
  await until("the step runs", async () => (await said()).includes("begun"), 60_000);
  return build;
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
  expect(await Template.getBuildStatus(build, second.options)).toMatchObject({
    status: "error",
    reason: { message: `the server was ${word} while the build was under way; start a new build` },
  });
  expect(await settledCensus(data, NOTHING)).toEqual(NOTHING);
  await Template.build(Template().fromTemplate("base").runCmd("true"), "slow", second.options);
  expect(await settledCensus(data, NOTHING)).toEqual(NOTHING);
  await second.stop();
});
