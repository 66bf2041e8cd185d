/**
 * Request rate limits. A team, or a user for requests without a team, has a budget for each kind of request: a burst,
 * then a steady rate. Requests without a valid key share a budget per client address. A valid key is never rejected
 * because of other requests from its address.
 */
import type { Clock } from "../../base/clock.ts";
import type { TokenBucket } from "../../base/token-bucket.ts";
import { Fault } from "../../contract/fault.ts";
import { ipv6Groups } from "../../contract/ip-range.ts";
import type { Authentication, Callers } from "../access/authentication.ts";
import { BodyBudgets } from "./body-budgets.ts";
import { TokenBuckets } from "./token-buckets.ts";

/** Burst of a request budget, in seconds of its rate. */
export const REQUEST_BURST_SECONDS = 10;
/** Requests without a valid key, per address: burst, and sustained rate per second. */
export const UNAUTHENTICATED_REQUESTS_BURST = 1_000;
export const UNAUTHENTICATED_REQUESTS_PER_SECOND = 50;

/** Requests per second. `reads` are GET requests, `changes` all others, `files` are requests for volume content. */
type RequestKind = "reads" | "changes" | "files";
export type RequestRates = Readonly<Record<RequestKind, number>>;

export const REQUEST_RATES_DEFAULT: RequestRates = { reads: 1_000, changes: 200, files: 1_000 };

/** Response headers that describe a budget. */
export type Allowance = Readonly<Record<"RateLimit-Limit" | "RateLimit-Remaining" | "RateLimit-Reset", string>>;

const UNAUTHENTICATED = { burst: UNAUTHENTICATED_REQUESTS_BURST, perSecond: UNAUTHENTICATED_REQUESTS_PER_SECOND };

export class RequestBudgets {
  readonly #budgets = new TokenBuckets();
  readonly #unauthenticated = new TokenBuckets();
  readonly bodies: BodyBudgets;

  constructor(
    private readonly clock: Clock,
    private readonly rates: RequestRates = REQUEST_RATES_DEFAULT,
  ) {
    this.bodies = new BodyBudgets(clock);
  }

  /** Takes one request out of the caller's budget and returns what is left. Fault 429 when it is empty. */
  take(owner: Owner, kind: RequestKind): Allowance {
    const now = this.clock.now();
    const perSecond = owner.rates[kind] ?? this.rates[kind];
    const burst = perSecond * REQUEST_BURST_SECONDS;
    const bucket = this.#budgets.of(`${kind} ${owner.id}`, { burst, perSecond }, now);
    const taken = bucket.take(1, now);
    const allowance = allowanceOf(bucket, burst, now);
    if (taken) return allowance;
    const retryAfterSeconds = secondsUntil(bucket, 1, now);
    const why = `${owner.name} may send ${perSecond} ${WORDS[kind]} each second, and sent more`;
    throw new Fault(429, `${why}; ${SLOW_DOWN}`, { headers: { ...allowance }, retryAfterSeconds });
  }

  /** As `take`, for a request without a valid key. Without an address nothing is counted. */
  takeUnauthenticated(client: string | undefined): void {
    if (client === undefined) return;
    const now = this.clock.now();
    const network = networkOf(client);
    const bucket = this.#unauthenticated.of(network, UNAUTHENTICATED, now);
    if (bucket.take(1, now)) return;
    throw new Fault(
      429,
      `${network} may send ${UNAUTHENTICATED_REQUESTS_PER_SECOND} requests without a valid key each second, and sent more; ` +
        "send an API key of this server, or retry later",
      { retryAfterSeconds: secondsUntil(bucket, 1, now) },
    );
  }
}

const SLOW_DOWN = "try again after Retry-After seconds, or ask the operator of this server to allow more";
const WORDS: Readonly<Record<RequestKind, string>> = {
  reads: "requests that read",
  changes: "requests that change something",
  files: "requests about files of volumes",
};

interface Owner {
  id: string;
  name: string;
  /** Set by the operator for this owner. */
  rates: { readonly [kind in RequestKind]?: number | undefined };
}

/** The owner of the budget that pays for a request. */
export function ownerOf(caller: NonNullable<Callers[Authentication]>): Owner {
  // An administrator neither uses the team's budget nor is limited by it.
  if ("actor" in caller && caller.actor.kind === "admin") return { id: caller.actor.id ?? "", ...ADMIN };
  if ("actor" in caller && caller.actor.kind === "root") return { id: "root", ...ADMIN };
  if ("team" in caller) return { id: caller.team.id, name: "this team", rates: caller.team.limits };
  if ("volume" in caller) return { id: caller.volume.teamId, name: "the team of this volume", rates: {} };
  return { id: `user ${caller.actor.id}`, name: "this user", rates: {} };
}

const ADMIN = { name: "this administrator", rates: {} } as const;

export function requestKindOf(method: string, auth: Authentication): RequestKind {
  if (auth === "volume") return "files";
  return method === "GET" ? "reads" : "changes";
}

function allowanceOf(bucket: TokenBucket, burst: number, now: number): Allowance {
  return {
    "RateLimit-Limit": String(burst),
    "RateLimit-Remaining": String(Math.floor(bucket.level(now))),
    "RateLimit-Reset": String(secondsUntil(bucket, burst, now)),
  };
}

/** Whole seconds, as the headers require. */
function secondsUntil(bucket: TokenBucket, level: number, now: number): number {
  return Math.ceil(bucket.msUntil(level, now) / 1000);
}

/** An IPv6 customer usually has a /64. Without this, each of its addresses would have its own budget. */
export function networkOf(address: string): string {
  const groups = ipv6Groups(address.split("%", 1)[0] ?? "")?.slice(0, 4);
  return groups === undefined ? address : `${groups.map((group) => group.toString(16)).join(":")}::/64`;
}
