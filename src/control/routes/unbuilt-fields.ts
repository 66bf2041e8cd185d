/**
 * Fields that clients may send but this server does not support yet. A request that uses one is rejected by the field's
 * name, so that no client relies on an ignored field. A value that means "no" counts as absent.
 */
import { Fault } from "../../contract/fault.ts";
import type { CreateSandboxV1, CreateSandboxV2 } from "../../contract/management/create-sandbox.ts";
import type { NetworkUpdate } from "../../contract/management/network.ts";

type Request = CreateSandboxV1 | CreateSandboxV2;

/** Whether a request uses the field, keyed by its name in the API. */
const usesField: Readonly<Record<string, (request: Request) => boolean>> = {
  "network.rules": ({ network }) => hasEntries(network?.rules),
  "iam.tokens": ({ iam }) => hasEntries(iam?.tokens),
};

export function refuseUnbuilt(request: Request): void {
  const unbuilt = Object.keys(usesField).filter((field) => usesField[field]?.(request));
  if (unbuilt.length > 0) throw new Fault(400, `this server does not support ${unbuilt.join(", ")} yet; leave it out`);
}

/** For changes of the egress rules of a running sandbox. */
export function refuseRules({ rules }: NetworkUpdate): void {
  if (hasEntries(rules)) throw new Fault(400, "this server does not support rules yet; leave it out");
}

/** For calls that would make another copy when they are repeated. */
export function refuseIdempotencyKey(headers: Headers): void {
  if (headers.has("idempotency-key")) {
    throw new Fault(400, "this endpoint does not support the header Idempotency-Key; leave it out");
  }
}

function hasEntries(value: object | null | undefined): boolean {
  return value !== null && value !== undefined && Object.keys(value).length > 0;
}
