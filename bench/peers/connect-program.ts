/**
 * A client in its own network: opens connections with this concurrency, each for one small response, or one connection
 * for all responses, and prints the time of each response and of all. It costs less than curl, which reads its
 * certificates for each connection, so the network path has a larger share. Standard input: a `ConnectTask`.
 */
import { KeptConnections, type Target } from "../clients/kept-connections.ts";
import { timed } from "../figures/samples.ts";

export interface ConnectTask {
  target: Target;
  count: number;
  together: number;
  /** All on one connection. */
  kept: boolean;
}

export interface Connected {
  eachMs: number[];
  allMs: number;
}

/** The first connections are the slowest and do not count. */
const WARM_UP = 8;

if (import.meta.main) {
  const task = (await Bun.stdin.json()) as ConnectTask;
  await connectAll({ ...task, count: WARM_UP });
  console.log(JSON.stringify(await connectAll(task)));
  process.exit(0);
}

async function connectAll({ target, count, together, kept }: ConnectTask): Promise<Connected> {
  const eachMs: number[] = [];
  if (kept) {
    using connection = await KeptConnections.open(target, 1);
    const allMs = await timed(async () => {
      for (let nth = 0; nth < count; nth++) eachMs.push(await connection.askMs(1));
    });
    return { eachMs, allMs };
  }
  let left = count;
  const work = async () => {
    while (left-- > 0) eachMs.push(await timed(() => connectOnce(target)));
  };
  const allMs = await timed(() => Promise.all(Array.from({ length: together }, work)));
  return { eachMs, allMs };
}

async function connectOnce(target: Target): Promise<void> {
  using _connection = await KeptConnections.open(target, 1);
}
