/** `SANDLOT_TEST_LONG=1 npm test` also runs slow tests, and draws other samples (seed.ts). */
export const LONG = process.env.SANDLOT_TEST_LONG === "1";
