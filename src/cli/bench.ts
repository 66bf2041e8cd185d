import { Fault } from "../contract/fault.ts";
import type { Config } from "./config.ts";

export async function bench(_config: Config, _args: readonly string[]): Promise<number> {
  throw new Fault(501, "not yet");
}
