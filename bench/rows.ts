/** Every row of the benchmark, in the order in which they are run and shown. */
import type { Row } from "./row.ts";
import { buildCached, buildCold } from "./rows/build.ts";
import { create } from "./rows/create.ts";
import { createMiss, createMissMany } from "./rows/create-miss.ts";
import { createServed } from "./rows/create-served.ts";
import { desktopFirst } from "./rows/desktop.ts";
import { download } from "./rows/download.ts";
import { edgeTls, edgeTlsLatency } from "./rows/edge-tls.ts";
import { firstOutput } from "./rows/first-output.ts";
import { fork, forkMany } from "./rows/fork.ts";
import { INTERPRETER_ROWS } from "./rows/interpreter.ts";
import { memory } from "./rows/memory.ts";
import { networkUpdate, networkUpdateMany } from "./rows/network-update.ts";
import { output } from "./rows/output.ts";
import { pause, pauseDirty } from "./rows/pause.ts";
import { relayConnections, relayFirstByte, relayThroughput } from "./rows/relay.ts";
import { resume } from "./rows/resume.ts";
import { roundTrip } from "./rows/round-trip.ts";
import { streams } from "./rows/streams.ts";
import { upload } from "./rows/upload.ts";
import { WALL_ROWS } from "./rows/walls.ts";

export const ROWS: readonly Row[] = [
  create,
  createMiss,
  createMissMany,
  createServed,
  firstOutput,
  roundTrip,
  download,
  upload,
  output,
  streams,
  pause,
  pauseDirty,
  resume,
  fork,
  forkMany,
  memory,
  buildCached,
  buildCold,
  relayFirstByte,
  relayThroughput,
  relayConnections,
  networkUpdate,
  networkUpdateMany,
  edgeTls,
  edgeTlsLatency,
  ...WALL_ROWS,
  // Last: of these templates, too, sandboxes are kept ready from then on.
  ...INTERPRETER_ROWS,
  desktopFirst,
];

export const ROW_NAMES: readonly string[] = ROWS.map(({ name }) => name);
