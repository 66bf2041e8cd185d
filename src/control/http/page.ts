/** A page for browsers, or an endpoint with a standard of its own. It is no part of the JSON interface. */
import type { Fault } from "../../contract/fault.ts";

export interface Page {
  method: "GET" | "POST";
  path: string;
  answer(request: Request, from: PageRequest): Promise<Response>;
  /** The response in place of an answer that failed. */
  refuse(fault: Fault): Response | Promise<Response>;
}

export interface PageRequest {
  /** The address at which the browser reached this server, without a trailing slash. */
  base: string;
  /** Address of the client; undefined in a test. */
  address: string | undefined;
  requestId: string;
}
