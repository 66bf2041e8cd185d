/** `sandlot users password`: reads a password from a terminal, without showing it, or from standard input. */
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { Fault } from "../../contract/fault.ts";
import { PASSWORD_MAX_CHARS, removePassword, setPassword } from "../../control/access/passwords.ts";
import { userNamed } from "../../control/access/people.ts";
import type { Config } from "../settings/config.ts";
import { recording, withStore } from "../with-store.ts";

export function changePassword(config: Config, email: string, isRemoval: boolean): Promise<number> {
  return withStore(config, async (store) => {
    const user = await userNamed(store, email);
    if (isRemoval) {
      const was = await removePassword(recording(store, "users password --remove"), user);
      console.log(was ? `${user.email} has no password any more` : `${user.email} had no password`);
      return 0;
    }
    const password = process.stdin.isTTY ? await typedPassword(user.email) : await firstLine();
    await setPassword(recording(store, "users password"), user, password);
    console.log(`set the password of ${user.email}, and ended its logins`);
    return 0;
  });
}

async function typedPassword(email: string): Promise<string> {
  const password = await ask(`New password of ${email}: `);
  if (password === (await ask("The same again: "))) return password;
  throw new Fault(400, "the two passwords differ; nothing was changed");
}

/** Prints the question and nothing of what is typed. */
async function ask(question: string): Promise<string> {
  process.stdout.write(question);
  const mute = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: process.stdin, output: mute, terminal: true });
  const aborted = new AbortController();
  terminal.on("SIGINT", () => aborted.abort());
  try {
    return await terminal.question("", { signal: aborted.signal });
  } catch (cause) {
    throw new Fault(400, "interrupted; nothing was changed", { cause });
  } finally {
    terminal.close();
    process.stdout.write("\n");
  }
}

async function firstLine(): Promise<string> {
  let text = "";
  for await (const chunk of process.stdin) {
    text += String(chunk);
    if (text.includes("\n") || text.length > 2 * PASSWORD_MAX_CHARS) break;
  }
  return text.split(/\r?\n/, 1)[0] ?? "";
}
