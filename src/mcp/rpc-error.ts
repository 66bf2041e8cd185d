/** An MCP error, as the client receives it. */
import { ErrorCode, McpError } from "@modelcontextprotocol/sdk/types.js";
import { Fault } from "../contract/fault.ts";

/** The MCP library adds this prefix to every message, on both sides. */
const PREFIX = /^MCP error -?\d+: /;

export class RpcError extends Error {
  override readonly name = "RpcError";

  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown,
  ) {
    super(message);
  }

  /** Converts any thrown value for the client. */
  static from(thrown: unknown): RpcError {
    if (thrown instanceof RpcError) return thrown;
    if (thrown instanceof McpError) return new RpcError(thrown.code, thrown.message.replace(PREFIX, ""), thrown.data);
    if (thrown instanceof Fault) return new RpcError(ErrorCode.InternalError, thrown.message);
    return new RpcError(ErrorCode.InternalError, "internal error of the gateway; its log has more");
  }
}
