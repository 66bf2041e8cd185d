/** `sandlot metrics`: the metrics of the running server, for Prometheus. */
import { adminCall } from "../admin-client.ts";
import type { Config } from "../settings/config.ts";

export async function metrics(config: Config): Promise<number> {
  process.stdout.write(await (await adminCall(config, "GET /metrics")).text());
  return 0;
}
