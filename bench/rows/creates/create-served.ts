/**
 * Time until a web server from a template's start command responds, beside a bare container that starts the same
 * program.
 */
import type { Context } from "../../context.ts";
import { interleave, timed } from "../../figures/samples.ts";
import { PlainContainer } from "../../peers/plain-container.ts";
import type { Row } from "../../row.ts";
import { build } from "../../sandboxes/bench-build.ts";
import { sandboxId } from "../../sandboxes/creating.ts";
import { SecondServer } from "../../sandboxes/second-server.ts";

const NAME = "bench-served";
/** The port in the sandbox and in the benchmark's network. */
const PORT = 8000;
const SERVE = ["python3", "-m", "http.server", String(PORT), "--directory", "/srv"];
const ANSWER_MS = 20_000;
const ASK_MS = 1;

export const createServed: Row = {
  name: "create-served",
  what: "create of a template with a running Python web server, until its first response",
  beside: { peer: "crun run of the same server on the same root, until its first response", ratio: "cost" },
  async run(context) {
    const start = { startCmd: SERVE.join(" "), readyCmd: `curl -sf localhost:${PORT}` };
    await using cold = await SecondServer.start(context);
    await build(cold.context, { name: NAME, from: { fromTemplate: "base" }, commands: [], start });
    await using floor = await PlainContainer.make(context);
    const peer = () => floor.runUntil(SERVE, () => answers(`http://127.0.0.1:${PORT}`, {}));
    const pairs = await interleave(context.rounds, () => servedMs(cold.context), peer);
    return { pairs };
  },
};

async function servedMs(context: Context): Promise<number> {
  let id = "";
  const ms = await timed(async () => {
    id = sandboxId(await context.call("POST", "/v2/sandboxes", { templateID: NAME }));
    await answers(context.sdk.sandboxUrl, { "E2b-Sandbox-Id": id, "E2b-Sandbox-Port": String(PORT) });
  });
  await context.call("DELETE", `/sandboxes/${id}`);
  return ms;
}

async function answers(url: string, headers: Record<string, string>): Promise<void> {
  const over = AbortSignal.timeout(ANSWER_MS);
  for (;;) {
    const response = await fetch(url, { headers, signal: over }).catch(() => undefined);
    await response?.arrayBuffer();
    if (response?.ok) return;
    over.throwIfAborted();
    await Bun.sleep(ASK_MS);
  }
}
