/** All rows of the benchmark in their order of execution. */
import type { Row } from "./row.ts";
import { bootProcessor } from "./rows/creates/boot-processor.ts";
import { burst, burstMany, sustained } from "./rows/creates/burst.ts";
import { create } from "./rows/creates/create.ts";
import { createMiss, createMissMany } from "./rows/creates/create-miss.ts";
import { PATTERN_ROWS } from "./rows/creates/create-patterns.ts";
import { createServed } from "./rows/creates/create-served.ts";
import { firstOutput } from "./rows/creates/first-output.ts";
import { download } from "./rows/data/download.ts";
import { http2Download, http2Upload } from "./rows/data/http2.ts";
import { output } from "./rows/data/output.ts";
import { roundTrip } from "./rows/data/round-trip.ts";
import { streams } from "./rows/data/streams.ts";
import { upload } from "./rows/data/upload.ts";
import { EDGE_ROWS } from "./rows/network/edge.ts";
import { ruleFirstByte, ruleKeptConnection, ruleThroughput } from "./rows/network/header-rule.ts";
import { networkUpdate, networkUpdateMany } from "./rows/network/network-update.ts";
import { relayConnections, relayFirstByte, relayThroughput } from "./rows/network/relay.ts";
import { createBesideDownload, createBesideUpload } from "./rows/scale/create-under-load.ts";
import { CROWD_ROWS } from "./rows/scale/crowd-rows.ts";
import { serverMemory } from "./rows/scale/server-memory.ts";
import { manyInterpreters, sharedBase, sharedInterpreter } from "./rows/sharing/sharing-memory.ts";
import { SHARING_TIMES, sharedFirstCell } from "./rows/sharing/sharing-times.ts";
import { fork, forkMany } from "./rows/states/fork.ts";
import { pauses, resumes } from "./rows/states/many-states.ts";
import { memory } from "./rows/states/memory.ts";
import { pause, pauseDirty } from "./rows/states/pause.ts";
import { resume } from "./rows/states/resume.ts";
import { resumeSoon, wake } from "./rows/states/wake.ts";
import { buildCached, buildCold } from "./rows/templates/build.ts";
import { desktopFirst } from "./rows/templates/desktop.ts";
import { INTERPRETER_ROWS } from "./rows/templates/interpreter.ts";
import { RUNSC_ROWS } from "./rows/templates/isolation.ts";

export const ROWS: readonly Row[] = [
  create,
  createMiss,
  createMissMany,
  burst,
  burstMany,
  sustained,
  bootProcessor,
  createServed,
  firstOutput,
  ...PATTERN_ROWS,
  roundTrip,
  download,
  upload,
  http2Download,
  http2Upload,
  output,
  streams,
  pause,
  pauseDirty,
  resume,
  resumeSoon,
  wake,
  pauses,
  resumes,
  fork,
  forkMany,
  memory,
  ...CROWD_ROWS,
  serverMemory,
  createBesideDownload,
  createBesideUpload,
  buildCached,
  buildCold,
  relayFirstByte,
  relayThroughput,
  relayConnections,
  ruleFirstByte,
  ruleKeptConnection,
  ruleThroughput,
  networkUpdate,
  networkUpdateMany,
  ...EDGE_ROWS,
  ...RUNSC_ROWS,
  ...SHARING_TIMES,
  sharedBase,
  sharedInterpreter,
  manyInterpreters,
  // Last, because from then on the server also keeps sandboxes of these templates ready.
  ...INTERPRETER_ROWS,
  sharedFirstCell,
  desktopFirst,
];
