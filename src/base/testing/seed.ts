/**
 * Chooses whatever a test draws by lot: which sample it plays, what clients do, how requests are damaged. The same in
 * each run, so that a change alone makes a test fail; `SANDLOT_TEST_LONG=1 npm test` draws another and tells it.
 * SANDLOT_TEST_SEED plays one again.
 */
const FIXED_SEED = 20_772;

export const SEED = Number(process.env.SANDLOT_TEST_SEED ?? FIXED_SEED);
