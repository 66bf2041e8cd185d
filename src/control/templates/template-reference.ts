/** How a template is named in a request: `[namespace/]alias-or-id[:tag]`, in any case, with space around it. */
import { Fault } from "../../contract/fault.ts";

export interface TemplateReference {
  namespace: string | undefined;
  /** An alias or a template id. */
  name: string;
  /** A tag or a build id. */
  tag: string | undefined;
}

export const DEFAULT_TAG = "default";

const WRITTEN = /^(?:([a-z0-9_-]+)\/)?([a-z0-9_-]+)(?::([a-z0-9_.-]+))?$/;

export function parseTemplateReference(written: string): TemplateReference {
  const match = WRITTEN.exec(written.trim().toLowerCase());
  if (match?.[2] === undefined) {
    throw new Fault(
      400,
      `invalid template reference ${JSON.stringify(written.slice(0, 128))}; ` +
        "write [namespace/]name[:tag], with names of a-z, 0-9, - and _",
    );
  }
  return { namespace: match[1], name: match[2], tag: match[3] };
}
