/**
 * A plain Python Jupyter kernel: `ipykernel` driven by `jupyter_client`, in a bare container on the interpreter
 * template's root filesystem. Hosts have neither of them, and so both sides use the same versions.
 */
import { Fault } from "../../src/contract/fault.ts";
import type { PlainContainer } from "./plain-container.ts";

const ANSWER_MS = 60_000;

/** Runs the given cell and prints its value; then runs each input line as a cell and prints its time in ms. */
const PROGRAM = `
import sys, time
from jupyter_client.manager import KernelManager
manager = KernelManager()
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)

def run(code):
    asked, value = client.execute(code), ""
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != asked:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "error":
            raise RuntimeError(content["evalue"])
        if kind == "execute_result":
            value = content["data"]["text/plain"]
        if kind == "status" and content["execution_state"] == "idle":
            return value

print(run(sys.argv[1]), flush=True)
for line in sys.stdin:
    begun = time.perf_counter()
    run(line)
    print((time.perf_counter() - begun) * 1000, flush=True)
`;

interface KernelTimes {
  /** From the start to the value of the first cell. */
  firstMs: number;
  /** Time of each later cell. */
  nextMs: number[];
}

/** `nextCells` run after the first, one by one. */
export async function runInKernel(
  container: PlainContainer,
  cell: { code: string; value: string },
  nextCells: readonly string[] = [],
): Promise<KernelTimes> {
  const begun = performance.now();
  const env = ["env", "HOME=/root", "JUPYTER_RUNTIME_DIR=/tmp/jupyter", "IPYTHONDIR=/tmp/ipython"];
  await using program = container.start([...env, "python3", "-c", PROGRAM, cell.code]);
  const lines = linesOf(program.child.stdout);
  const next = async () => {
    const late = AbortSignal.timeout(ANSWER_MS);
    const over = new Promise<never>((_, reject) =>
      late.addEventListener("abort", () => reject(new Fault(500, `a plain kernel was silent for ${ANSWER_MS} ms`))),
    );
    return await Promise.race([lines.next().then(({ value }) => value ?? ""), program.failure, over]);
  };
  const value = await next();
  const firstMs = performance.now() - begun;
  if (value !== cell.value) throw new Fault(500, `a plain kernel answered ${cell.code} with ${JSON.stringify(value)}`);
  const nextMs: number[] = [];
  for (const code of nextCells) {
    program.child.stdin.write(`${code}\n`);
    await program.child.stdin.flush();
    nextMs.push(Number(await next()));
  }
  return { firstMs, nextMs };
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    const lines = (text + decoder.decode(chunk, { stream: true })).split("\n");
    text = lines.pop() ?? "";
    yield* lines;
  }
}
