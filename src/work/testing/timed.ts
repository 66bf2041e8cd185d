/**
 * The options of a test that holds a tight bound of time: what else the machine does may hold up one try, or two, and then it is
 * measured again. What is always late still fails, and the report tells the attempts.
 */
export const TIMED = { retry: 2, timeout: 60_000 };
