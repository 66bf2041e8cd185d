/** Every row of the benchmark, in the order in which they are run and shown. */
import type { Row } from "./row.ts";
import { create } from "./rows/create.ts";
import { firstOutput } from "./rows/first-output.ts";
import { roundTrip } from "./rows/round-trip.ts";

export const ROWS: readonly Row[] = [create, firstOutput, roundTrip];
