/** `sandlot users password`: reads a password from a terminal, without showing it, or from standard input. */
import { Fault } from "../../contract/fault.ts";
import { PASSWORD_MAX_CHARS, removePassword, setPassword } from "../../control/access/passwords.ts";
import { userNamed } from "../../control/access/people.ts";
import type { Config } from "../settings/config.ts";
import { recording, withStore } from "../with-store.ts";
import { askHidden } from "./hidden-input.ts";

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
  const password = await askHidden(`New password of ${email}: `);
  if (password === (await askHidden("The same again: "))) return password;
  throw new Fault(400, "the two passwords differ; nothing was changed");
}

async function firstLine(): Promise<string> {
  let text = "";
  for await (const chunk of process.stdin) {
    text += String(chunk);
    if (text.includes("\n") || text.length > 2 * PASSWORD_MAX_CHARS) break;
  }
  return text.split(/\r?\n/, 1)[0] ?? "";
}
