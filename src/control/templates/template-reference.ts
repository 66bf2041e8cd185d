/** Parses template references: `[namespace/]alias-or-id[:tag]`, case-insensitive, with surrounding space allowed. */
import { Fault } from "../../contract/fault.ts";
import { TEMPLATE_ID } from "../../contract/ids.ts";
import { UUID } from "../../contract/management/identifiers.ts";
import { TEMPLATE_REFERENCE_MAX_CHARS } from "../../contract/management/limits.ts";
import { quoted } from "../../contract/quoted-text.ts";

export interface TemplateReference {
  namespace: string | undefined;
  /** An alias or a template id. */
  name: string;
  /** A tag or a build id. */
  tag: string | undefined;
}

export const DEFAULT_TAG = "default";

const TAG = /^[a-z0-9_.-]+$/;

const WRITTEN = /^(?:([a-z0-9_-]+)\/)?([a-z0-9_-]+)(?::([a-z0-9_.-]+))?$/;

export function parseTemplateReference(written: string): TemplateReference {
  const isShort = written.length <= TEMPLATE_REFERENCE_MAX_CHARS;
  const match = isShort ? WRITTEN.exec(written.trim().toLowerCase()) : null;
  if (match?.[2] === undefined) {
    throw new Fault(
      400,
      `invalid template reference ${quoted(written)}; ` +
        "write [namespace/]name[:tag], with names of a-z, 0-9, - and _",
    );
  }
  return { namespace: match[1], name: match[2], tag: match[3] };
}

/** A template with such a name could shadow the template that has this id. */
export function isLikeTemplateId(name: string): boolean {
  return TEMPLATE_ID.test(name);
}

/** A tag that a build may get. The form of a build id is reserved, because it means that build. */
export function parseTag(written: string): string {
  const tag = written.trim().toLowerCase();
  if (!TAG.test(tag)) throw new Fault(400, `invalid tag ${quoted(written)}; write a-z, 0-9, -, _ and .`);
  if (UUID.test(tag)) throw new Fault(400, `the tag "${tag}" has the form of a build id; choose another one`);
  return tag;
}
