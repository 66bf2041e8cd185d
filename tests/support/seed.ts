/** Chooses what a test that can only play a sample plays: another one every day, so that a failure can be seen again. */
const DAY_MS = 86_400_000;

export const TODAYS_SEED = Number(process.env.SANDLOT_TEST_SEED ?? Math.floor(Date.now() / DAY_MS));
