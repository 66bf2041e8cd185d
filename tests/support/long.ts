/** `SANDLOT_TEST_LONG=1 npm test` also runs slow tests, and draws other samples (src/base/testing/seed.ts). */
export const LONG = process.env.SANDLOT_TEST_LONG === "1";
