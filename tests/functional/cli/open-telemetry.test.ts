/** One trace and one id for a client's request, from its headers to the answer of the sandbox. */
import { expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { envelope } from "../../../src/guest/testing/running-guest.ts";
import { OtlpReceiver, type ReceivedSpan } from "../../../src/metrics/testing/otlp-receiver.ts";
import { runtimeTokenOf } from "../../support/runtime-calls.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const TEST_MS = 180_000;
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN = "00f067aa0ba902b7";
const folderNamed = foldersOfFile();

/** Of another tool than the SDK, which sends no headers of its user to the runtime. */
async function runCommand(server: TestServer, sandboxId: string, headers: Record<string, string>): Promise<void> {
  const response = await fetch(`${server.url}/process.Process/Start`, {
    method: "POST",
    headers: {
      ...headers,
      "E2b-Sandbox-Id": sandboxId,
      "E2b-Sandbox-Port": "49983",
      "X-Access-Token": await runtimeTokenOf(server, sandboxId),
      "Content-Type": "application/connect+json",
    },
    body: envelope({ process: { cmd: "/bin/true" } }),
  });
  expect(response.headers.get("x-request-id")).toBe("one-of-ours");
  expect(await response.text()).toContain("exit status 0");
}

test(
  "a create and a command with a traceparent are one trace: edge, control, the steps of a boot, the guest's answer",
  async () => {
    await using stack = new AsyncDisposableStack();
    const collector = new OtlpReceiver();
    stack.defer(() => collector.stop());
    const server = await startServer(folderNamed("open-telemetry"), {
      SANDLOT_READY: "0",
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test",
    });
    const headers = { traceparent: `00-${TRACE}-${CLIENT_SPAN}-01`, "X-Request-ID": "one-of-ours" };
    const sandbox = await Sandbox.create({ ...server.options, headers });
    await runCommand(server, sandbox.sandboxId, headers);
    await until("the sandbox's log has the command", async () => {
      const { body } = await server.call("GET", `/v2/sandboxes/${sandbox.sandboxId}/logs`);
      return JSON.stringify(body).includes('"request_id":"one-of-ours"');
    });
    await sandbox.kill();
    const named = (name: string) => collector.spans.filter((span) => span.traceId === TRACE && span.name === name);
    // Each process of the edge and the management send theirs in their own time.
    await until("the spans have arrived", () => {
      const paths = [named("POST command")[0], named("boot")[0], named("runtime: create")[0]].map(pathOf);
      return paths.every((path) => path.at(-1) === CLIENT_SPAN);
    });
    expect(collector.refused).toEqual([]);
    expect(collector.requests[0]?.resource).toMatchObject({
      "service.name": "sandlot",
      "deployment.environment.name": "test",
    });
    expect(pathOf(named("boot")[0])).toEqual([
      "boot",
      "of its template",
      "host: create",
      "POST /v2/sandboxes",
      "POST management",
      CLIENT_SPAN,
    ]);
    expect(pathOf(named("runtime: create")[0])).toContain("boot");
    const [command] = named("POST command");
    expect(pathOf(command)).toEqual(["POST command", CLIENT_SPAN]);
    expect(command?.attributes).toContainEqual({
      key: "sandlot.request.id",
      value: { stringValue: "one-of-ours" },
    });
    const answer = named("edge: wait for the response").find((span) => span.parentSpanId === command?.spanId);
    expect(Number(answer?.endTimeUnixNano)).toBeLessThanOrEqual(Number(command?.endTimeUnixNano));
    await server.stop();

    function pathOf(span: ReceivedSpan | undefined): string[] {
      if (span === undefined) return ["missing"];
      const parent = collector.spans.find(({ spanId }) => spanId === span.parentSpanId);
      return [span.name, ...(parent === undefined ? [span.parentSpanId ?? "none"] : pathOf(parent))];
    }
  },
  TEST_MS,
);
