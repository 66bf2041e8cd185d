/** What the doctor says about a store in Postgres. */
import { Fault } from "../../contract/fault.ts";
import { broken, degraded, type Finding, ok } from "../../setup/doctor/finding.ts";
import { examinePostgres, POSTGRES_VERSION_MIN } from "../../store/examination.ts";
import { type StoreSettings, storeUrl } from "../folder-store.ts";
import type { PostgresStore } from "../settings/postgres-url.ts";

/** For one statement. A create waits for some of them. */
const ROUND_TRIP_MAX_MS = 5;

export async function postgresFinding(
  config: StoreSettings,
  { url, shown, isExposed }: PostgresStore,
): Promise<Finding> {
  try {
    storeUrl(config);
    const { version, roundTripMs } = await examinePostgres(url);
    const detail = `Postgres ${version} at ${shown}, ${roundTripMs.toFixed(1)} ms for a statement`;
    if (Number.parseInt(version, 10) < POSTGRES_VERSION_MIN) {
      return degraded(detail, "what only later versions are tested for", `upgrade to ${POSTGRES_VERSION_MIN} or later`);
    }
    if (isExposed) {
      const lost = "secrecy on the network: keys and rows are not encrypted";
      return degraded(detail, lost, "add ?sslmode=verify-full to SANDLOT_STORE (docs/postgres.md)");
    }
    if (roundTripMs <= ROUND_TRIP_MAX_MS) return ok(detail);
    return degraded(detail, "fast creates: each waits for several statements", "run Postgres nearer to this machine");
  } catch (error) {
    const [problem, fix] = Fault.from(error).message.split(" FIX: ");
    return broken(`${shown}: ${problem}`, fix ?? "start Postgres, or correct SANDLOT_STORE (docs/postgres.md)");
  }
}
