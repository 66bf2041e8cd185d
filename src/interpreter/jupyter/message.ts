/** Messages of the Jupyter protocol 5.3 as frames. The peer is the kernel, so its signatures are not checked. */
import { createHmac } from "node:crypto";
import { Fault } from "../../contract/fault.ts";

const DELIMITER = "<IDS|MSG>";

export interface Received {
  type: string;
  /** The id of the request; empty: none. */
  parentId: string;
  /** JSON text. */
  content: string;
}

export interface Session {
  key: string;
  id: string;
}

export function framesOf({ key, id }: Session, messageId: string, type: string, content: unknown): Buffer[] {
  const header = {
    msg_id: messageId,
    session: id,
    username: "sandlot",
    date: new Date().toISOString(),
    msg_type: type,
    version: "5.3",
  };
  const parts = [header, {}, {}, content].map((part) => JSON.stringify(part));
  const signature = createHmac("sha256", key).update(parts.join("")).digest("hex");
  return [DELIMITER, signature, ...parts].map((part) => Buffer.from(part));
}

/** Fault 500: not a message. */
export function received(frames: readonly Buffer[]): Received {
  const at = frames.findIndex((frame) => frame.length === DELIMITER.length && frame.toString("latin1") === DELIMITER);
  const [, header, parent, , content] = at === -1 ? [] : frames.slice(at + 1);
  if (header === undefined || parent === undefined || content === undefined) {
    throw new Fault(500, `the kernel sent a message of ${frames.length} frames that is none of Jupyter's`);
  }
  return {
    type: textOf(header, "msg_type"),
    parentId: textOf(parent, "msg_id"),
    content: content.toString(),
  };
}

function textOf(json: Buffer, member: string): string {
  const value = (JSON.parse(json.toString()) as Record<string, unknown> | null)?.[member];
  return typeof value === "string" ? value : "";
}
