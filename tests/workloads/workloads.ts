/** All workloads of the workloads' image, in the order of the rows in docs/pause.md. */
import { builds } from "./builds.ts";
import { crowds } from "./crowds.ts";
import { databases } from "./databases.ts";
import { interpreters } from "./interpreters.ts";
import { outside } from "./outside.ts";
import { refusals } from "./refusals.ts";
import { servers } from "./servers.ts";
import { shells } from "./shells.ts";
import type { Workload } from "./workload.ts";

export const workloads: readonly Workload[] = [
  ...interpreters,
  ...servers,
  ...databases,
  ...shells,
  ...builds,
  ...crowds,
  ...outside,
  ...refusals,
];
