/** Authenticates the caller of a request by the credentials that its route takes. */
import type { Clock } from "../../base/clock.ts";
import { Fault } from "../../contract/fault.ts";
import type { Store } from "../../store/store.ts";
import {
  type Authentication,
  authenticateAdmin,
  authenticateBearer,
  authenticateKey,
  authenticateLogin,
  authenticateMember,
  authenticateVolume,
  type Callers,
  type Client,
  type VolumeOf,
} from "../access/authentication.ts";
import type { Logins } from "../access/logins.ts";
import type { RequestBudgets } from "../budgets/request-rates.ts";

export interface CallerOptions {
  store: Store;
  clock: Clock;
  logins: Logins;
  budgets: RequestBudgets;
  /** False: requests get 503. */
  isReady(): boolean;
  /** The volume of a token, or a Fault. */
  volumeOf?: VolumeOf;
}

/** Requests without a caller have a budget too: for public routes, and for guessed keys. */
export async function callerOf(
  auth: Authentication,
  headers: Headers,
  client: Client | undefined,
  options: CallerOptions,
): Promise<Callers[Authentication]> {
  if (auth === "none") {
    options.budgets.takeUnauthenticated(client?.address);
    return undefined;
  }
  if (!options.isReady()) throw notReady();
  try {
    return await authenticate(auth, headers, client, options);
  } catch (thrown) {
    if (thrown instanceof Fault && thrown.status === 401) options.budgets.takeUnauthenticated(client?.address);
    throw thrown;
  }
}

async function authenticate(
  auth: Exclude<Authentication, "none">,
  headers: Headers,
  client: Client | undefined,
  { store, clock, logins, volumeOf }: CallerOptions,
): Promise<Callers[Authentication]> {
  const given = { headers, client, store, logins, now: clock.now() };
  switch (auth) {
    case "volume":
      return await authenticateVolume(given, volumeOf);
    case "key":
      return await authenticateKey(given);
    case "member":
      return await authenticateMember(given);
    case "admin":
      return await authenticateAdmin(given);
    case "login":
      return await authenticateLogin(given);
    case "bearer":
      return await authenticateBearer(given);
  }
}

export function notReady(): Fault {
  return new Fault(503, "the server is starting or stopping; try again in a moment");
}
