/** An error as MCP has it: what a client hears in answer to a request. */
import { ErrorCode, McpError } from "@modelcontextprotocol/sdk/types.js";
import { Fault } from "../contract/fault.ts";

/** The client puts this in front of every message, and so does the gateway's own. */
const PREFIX = /^MCP error -?\d+: /;

export class RpcError extends Error {
  override readonly name = "RpcError";
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }

  /** Whatever was thrown, as the client should hear it. */
  static from(thrown: unknown): RpcError {
    if (thrown instanceof RpcError) return thrown;
    if (thrown instanceof McpError) return new RpcError(thrown.code, thrown.message.replace(PREFIX, ""), thrown.data);
    if (thrown instanceof Fault) return new RpcError(ErrorCode.InternalError, thrown.message);
    return new RpcError(ErrorCode.InternalError, "internal error of the gateway; its log has more");
  }
}
