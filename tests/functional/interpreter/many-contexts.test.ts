/** A hundred contexts in one sandbox, each with a kernel of its own. */
import { describe, expect, test } from "bun:test";
import type { Context } from "@e2b/code-interpreter";
import { interpreterOfFile } from "../../support/interpreter/interpreter-of-file.ts";
import { LONG } from "../../support/long.ts";
import { refusalOf, until } from "../../support/until.ts";

const COUNT = 100;
const AT_ONCE = 5;
/** On a busy machine each takes its time. */
const PATIENT = { requestTimeoutMs: 200_000, timeoutMs: 200_000 };

async function atATime(work: (at: number) => Promise<void>): Promise<void> {
  let begun = 0;
  const some = async () => {
    for (let at = begun++; at < COUNT; at = begun++) await work(at);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, some));
}

describe.skipIf(!LONG)("in one sandbox", () => {
  const sandbox = interpreterOfFile();

  test("a hundred contexts keep what is theirs, and go", async () => {
    const contexts = new Map<number, Context>();
    const run = (at: number, code: string) => {
      const context = contexts.get(at);
      if (context === undefined) throw new Error(`there is no context ${at}`);
      return sandbox().runCode(code, Object.assign({ context }, PATIENT));
    };
    const shells = async () => Number((await sandbox().commands.run("pgrep -fc '^bash --nor[c]' || true")).stdout);
    await atATime(async (at) => {
      contexts.set(at, await sandbox().createCodeContext({ language: "bash", requestTimeoutMs: 200_000 }));
      await run(at, `own=${at}`);
    });
    expect(await sandbox().listCodeContexts()).toHaveLength(2 + COUNT);
    expect(await shells()).toBe(COUNT);
    const printed = new Map<number, string>();
    await atATime(async (at) => void printed.set(at, (await run(at, "echo $own")).logs.stdout.join("")));
    expect([...printed].filter(([at, text]) => text !== `${at}\n`)).toEqual([]);
    for (const context of contexts.values()) await sandbox().removeCodeContext(context);
    expect((await refusalOf(run(0, "echo"))).message).toContain(contexts.get(0)?.id ?? "none");
    expect((await sandbox().runCode("1 + 1")).text).toBe("2");
    await until("their shells have gone", async () => (await shells()) === 0);
  }, 1_800_000);
});
