/** Readings of a server without sandboxes. */
import type { Readings } from "../server-metrics.ts";

export const EMPTY_READINGS: Readings = {
  numbers: {
    sandlot_slots: 10,
    sandlot_slots_free: 9,
    sandlot_disk_bytes: 8,
    sandlot_disk_free_bytes: 7,
    sandlot_data_bytes: 12,
    sandlot_data_free_bytes: 11,
    sandlot_memory_bytes: 6,
    sandlot_memory_available_bytes: 5,
    sandlot_memory_reserve_bytes: 4,
    sandlot_memory_short: 0,
    sandlot_memory_used_bytes: 3,
    sandlot_shared_memory_bytes: 2,
    sandlot_shared_memory_saved_bytes: 1,
  },
  sandboxes: [],
  pool: { templates: [], hits: 0, joined: 0, misses: 0 },
};
