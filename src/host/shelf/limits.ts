/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */

/** How long the ready pool rests after a start ahead that failed, and after the first that is taken in a while. */
export const READY_RETRY_MS = 5_000;
export const READY_REFILL_DELAY_MS = 100;
/** Nobody has taken any for so long: whoever takes the next one is about to use it. */
export const READY_QUIET_MS = 250;
/** While they are taken one after another, none is made until this part is left. */
export const READY_LOW_PART = 0.25;
/** And so long after that none as long as others have much to do: whoever took one is about to use it. */
export const READY_USE_MS = 2_000;
/** So many tasks for each processor run or wait for one at this moment: others have much to do. */
export const READY_RUNNABLE_MAX = 2;
/** How often it is looked whether there is still room for them. */
export const READY_LOOK_MS = 1_000;
/** Made ready at the same time, but no more than there are processors; and given back. */
export const READY_STARTS_AT_ONCE_MAX = 4;
export const READY_DISCARDS_AT_ONCE = 4;
/** Creates within so long are a burst. The largest counts for so long, and then half of it again and again. */
export const READY_BURST_MS = 5_000;
export const READY_HELD_MS = 300_000;
export const READY_HALVED_MS = 300_000;
/** Of all that is kept ready, the most that is for one owner; and how many owners of a template are told apart. */
export const READY_OWNERS_PART = 0.8;
export const READY_OWNERS_MAX = 256;
/** Templates of which it is known how they are asked for. */
export const READY_STOCKS_MAX = 256;
/** Of the network slots that are not in use. */
export const READY_SLOTS_PART = 0.125;
/**
 * Ready sandboxes take a part of the memory that is free after a reserve: a part of all, and no less than so much. When
 * there is more again, that counts after a while.
 */
export const READY_MEMORY_PART = 0.25;
/** What is free is read no more often than this. */
export const READY_MEMORY_EVERY_MS = 100;
export const READY_RESERVE_PART = 0.1;
export const READY_RESERVE_MIN_BYTES = 512 * 1024 ** 2;
export const READY_REGROW_MS = 10_000;
/** What one takes, until the first is there: one that boots, and one with the memory of a checkpoint. */
export const READY_GUESS_BYTES = 32 * 1024 ** 2;
export const READY_GUESS_RESTORED_BYTES = 256 * 1024 ** 2;
/** What is ready is written down for the operator no more often. */
export const SHELF_REPORT_EVERY_MS = 250;
