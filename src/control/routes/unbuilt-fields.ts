/**
 * What clients may ask for and this server cannot do yet. A request that asks for it is refused by the field's name, so
 * that nobody believes to have what was ignored; the value that means "no" is as good as no value.
 */
import { Fault } from "../../contract/fault.ts";
import type { CreateSandboxV1, CreateSandboxV2 } from "../../contract/management/create-sandbox.ts";
import type { NetworkUpdate } from "../../contract/management/network.ts";

type Request = CreateSandboxV1 | CreateSandboxV2;

/** Whether a request asks for the field, by the field's name as clients write it. */
const asksFor: Readonly<Record<string, (request: Request) => boolean>> = {
  "network.rules": ({ network }) => hasEntries(network?.rules),
  "iam.tokens": ({ iam }) => hasEntries(iam?.tokens),
};

export function refuseUnbuilt(request: Request): void {
  const asked = Object.keys(asksFor).filter((field) => asksFor[field]?.(request));
  if (asked.length > 0) throw new Fault(400, `this server does not support ${asked.join(", ")} yet; leave it out`);
}

/** Of a change of what may leave a running sandbox. */
export function refuseRules({ rules }: NetworkUpdate): void {
  if (hasEntries(rules)) throw new Fault(400, "this server does not support rules yet; leave it out");
}

export function refuseIdempotencyKey(headers: Headers): void {
  if (headers.has("idempotency-key")) {
    throw new Fault(400, "this server does not support the header Idempotency-Key yet; leave it out");
  }
}

function hasEntries(value: object | null | undefined): boolean {
  return value !== null && value !== undefined && Object.keys(value).length > 0;
}
