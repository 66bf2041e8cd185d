// Runs features one after the other, and prints one line of JSON for each.
const FEATURE_MS = 240_000;

/** Ends a feature that the installed version of the client does not have. */
export class Absent extends Error {}

export function orAbsent(value) {
  if (value === undefined) throw new Absent();
  return value;
}

export function equal(seen, expected) {
  const [left, right] = [JSON.stringify(seen), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${left} instead of ${right}`);
}

export async function until(condition) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 100));
}

export async function runFeatures(features) {
  for (const [feature, run] of Object.entries(features)) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no result within ${FEATURE_MS} ms`)), FEATURE_MS);
    });
    try {
      await Promise.race([run(), late]);
      console.log(JSON.stringify({ feature, result: "works" }));
    } catch (error) {
      if (error instanceof Absent) console.log(JSON.stringify({ feature, result: "absent" }));
      else console.log(JSON.stringify({ feature, result: "fails", reason: String(error) }));
    } finally {
      clearTimeout(timer);
    }
  }
  process.exit(0);
}
