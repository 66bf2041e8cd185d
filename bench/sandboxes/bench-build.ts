/** Builds templates like any HTTP client, and the ten steps of the rows about builds. */
import { Fault } from "../../src/contract/fault.ts";
import type { Context } from "../context.ts";

const BUILD_MS = 60_000;
const POLL_MS = 5;

export const TEN_COMMANDS: readonly string[] = smallCommands(10);

/** Small steps, so that the measurement shows the work around them. */
export function smallCommands(count: number): string[] {
  return Array.from({ length: count }, (_, at) => `echo ${at} > /step-${at}`);
}

interface BenchBuild {
  name: string;
  from: { fromTemplate: string } | { fromImage: string };
  commands: readonly string[];
  force?: boolean;
  start?: { startCmd: string; readyCmd: string };
}

/** Resolves when the template is ready. */
export async function build(context: Context, options: BenchBuild): Promise<void> {
  const { name, from, commands, force = false, start } = options;
  const wanted = (await context.call("POST", "/v3/templates", { name })) as {
    templateID: string;
    buildID: string;
  };
  const path = `/templates/${wanted.templateID}/builds/${wanted.buildID}`;
  const steps = commands.map((command) => ({ type: "RUN", args: [command, "root"], force: false }));
  await context.call("POST", `/v2${path}`, { ...from, ...start, steps, force });
  const deadline = performance.now() + BUILD_MS;
  for (;;) {
    const output = (await context.call("GET", `${path}/status`)) as { status: string; reason?: { message: string } };
    if (output.status === "ready") return;
    if (output.status === "error" || performance.now() > deadline) {
      throw new Fault(
        500,
        `the build of ${name} is ${output.status}: ${output.reason?.message ?? "it takes too long"}`,
      );
    }
    await Bun.sleep(POLL_MS);
  }
}

/** The team is the benchmark's own. */
export async function removeTemplate(context: Context, name: string): Promise<void> {
  await context.call("DELETE", `/templates/${name}`);
}
