/**
 * The program of an edge process. Its only privilege is to listen on any port. It reads only what clients and sandboxes
 * send, and what the server writes to its standard input; it ends when that closes.
 */
import { dirname, join } from "node:path";
import { boundedLines } from "../../../base/bounded-lines.ts";
import { EDGE_PROCESS_LINE_MAX_BYTES } from "../../../edge/limits.ts";
import { EdgeProcess } from "../../../edge/process/edge-process.ts";
import { Splicer } from "../../../edge/splice/splicer.ts";
import { boundReceived, boundUnsent, withoutPacing } from "../../../edge/splice/system-calls.ts";
import { routeToNewestListener } from "../../../tls/shared-port.ts";

const out = Bun.stdout.writer();
const edge = new EdgeProcess({
  send(line) {
    out.write(line);
    void out.flush();
  },
  routeToNewestListener,
  sockets: { staysOnMachine: withoutPacing, boundUnsent, boundReceived },
  // The server bundles it into a folder beside that of this program.
  splice: new Splicer(join(dirname(import.meta.dir), "splice", "splice.js")),
});

for await (const line of boundedLines(Bun.stdin.stream(), EDGE_PROCESS_LINE_MAX_BYTES)) edge.received(line);
process.exit(0);
