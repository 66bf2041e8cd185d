/**
 * Runs JavaScript cells in Node's global scope. The interpreter's server starts it and sends one request after the
 * other. The user's scope contains nothing of it except what `globals.ts` adds.
 */
import process from "node:process";
import { constants, Script } from "node:vm";
import { showResult } from "./display.ts";
import { hideOwnFrames, Interrupted, sayError, uncaughtText } from "./errors.ts";
import { makeAssignable, setGlobals } from "./globals.ts";
import { done, listen, type Request, say } from "./messages.ts";
import { prepareReseed, replaceMathRandom, reseed } from "./random.ts";
import { replaceStreams } from "./streams.ts";

let interrupt: (() => void) | undefined;

replaceStreams();
replaceMathRandom();
hideOwnFrames();
setGlobals();
process.on("SIGINT", () => interrupt?.());
for (const event of ["uncaughtException", "unhandledRejection"] as const) {
  process.on(event, (thrown: unknown) => say({ kind: "stderr", text: uncaughtText(thrown) }));
}
listen((request) => void take(request));
// After it has reported ready, and before a cell can change what this needs.
setImmediate(prepareReseed);

async function take(request: Request): Promise<void> {
  if (request.kind === "interrupt") {
    interrupt?.();
    return;
  }
  if (request.kind === "cell") {
    await runCell(request);
    done(request.number, {});
    return;
  }
  try {
    doChore(request);
    done(request.number, {});
  } catch (thrown) {
    done(request.number, { fault: String((thrown as Error).message) });
  }
}

function doChore({ kind, variables, folder }: Request): void {
  if (kind === "folder") process.chdir(folder);
  else if (kind === "reseed") reseed();
  else {
    for (const [name, value] of Object.entries(variables)) {
      if (value === null) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

async function runCell(request: Request): Promise<void> {
  // A promise cannot be stopped, but the runner need not wait for it.
  const stopped = new Promise<never>((_resolve, reject) => {
    interrupt = () => reject(new Interrupted());
  });
  stopped.catch(() => undefined);
  try {
    await showResult(await Promise.race([stopped, resultOf(request)]));
  } catch (thrown) {
    sayError(thrown);
  }
  interrupt = undefined;
  // Callbacks that are already due belong to this cell.
  await new Promise((resolve) => setImmediate(resolve));
}

function resultOf({ name, source, isAsync, hasValue, shift, names }: Request): unknown {
  makeAssignable(names);
  const script = new Script(source, {
    filename: name,
    columnOffset: -shift,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER as never,
  });
  const given: unknown = script.runInThisContext({ breakOnSigint: true });
  if (!isAsync) return hasValue ? given : undefined;
  return (given as Promise<{ value: unknown } | undefined>).then((result) => (hasValue ? result?.value : undefined));
}
