/**
 * The seed of every random choice in tests: which sample runs, what clients do, how requests are damaged. It is fixed,
 * so that only a change makes a test fail. `SANDLOT_TEST_LONG=1 npm test` chooses another and prints it;
 * SANDLOT_TEST_SEED replays one.
 */
const FIXED_SEED = 20_772;

export const SEED = Number(process.env.SANDLOT_TEST_SEED ?? FIXED_SEED);
