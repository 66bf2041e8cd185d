/** The build's own sandbox fetches the URLs of ADD in a Dockerfile, so they reach only what a sandbox may reach. */
import { expect, test } from "bun:test";
import { CLOSED_EXAMPLES, OUTSIDE } from "../../src/host/testing/outer-network.ts";
import { newMark, timesSeen } from "../support/egress/probing.ts";
import { sandlotKeys } from "../support/sandlot-keys.ts";
import { sharedServer } from "../support/shared-server.ts";
import { until } from "../support/until.ts";

const BUILD_MS = 180_000;
const server = sharedServer();

/** How a build ends that fetches this. */
async function adding(url: string, token: string): Promise<string> {
  const ask = async (path: string, init: RequestInit) => await (await fetch(`${server().url}${path}`, init)).json();
  const body = JSON.stringify({ dockerfile: `FROM e2bdev/base\nADD ${url} /tmp/added` });
  const request = { method: "POST", headers: { Authorization: `Bearer ${token}` }, body };
  const { templateID, buildID } = await ask("/templates", request);
  let status = "";
  const isOver = async () => {
    status = (await server().call("GET", `/templates/${templateID}/builds/${buildID}/status`)).body.status;
    return status === "ready" || status === "error";
  };
  await until("the build is over", isOver, BUILD_MS);
  return status;
}

test("a redirect to a closed address is not followed", async () => {
  const token = await sandlotKeys(server(), "token", "added URLs");
  const mark = newMark();
  const to = encodeURIComponent(`http://${CLOSED_EXAMPLES.private}/${mark}-inside`);
  expect(await adding(`http://${OUTSIDE}/${mark}-hop?redirect=${to}`, token)).toBe("error");
  expect([await timesSeen(`/${mark}-hop`), await timesSeen(`/${mark}-inside`)]).toEqual([1, 0]);
});
