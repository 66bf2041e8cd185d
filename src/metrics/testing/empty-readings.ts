/** Readings of a server without sandboxes. */
import type { Readings } from "../server-metrics.ts";

export const EMPTY_READINGS: Readings = {
  slots: { total: 10, free: 9 },
  disk: { totalBytes: 8, freeBytes: 7 },
  dataDisk: { totalBytes: 12, freeBytes: 11 },
  memory: {
    totalBytes: 6,
    availableBytes: 5,
    reserveBytes: 4,
    isShort: false,
    usedBytes: 3,
    sharedBytes: 2,
    savedBytes: 1,
  },
  sandboxes: [],
  pool: { templates: [], hits: 0, joined: 0, misses: 0 },
};
