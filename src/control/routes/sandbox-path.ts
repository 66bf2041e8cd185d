/** The `{sandboxID}` of a path: the id alone, or `<id>-<clientID>` as older clients send it. */
import { Fault } from "../../contract/fault.ts";
import { SANDBOX_ID } from "../../contract/ids.ts";
import { quoted } from "../../contract/quoted-text.ts";

const WRITTEN = /^([^-]{1,64})(?:-[a-z0-9]{0,64})?$/;

export function sandboxIdFrom(segment: string): string {
  const [, id = ""] = WRITTEN.exec(segment) ?? [];
  if (SANDBOX_ID.test(id)) return id;
  throw new Fault(400, `invalid sandbox id ${quoted(segment)}; it consists of a-z and 0-9`);
}
