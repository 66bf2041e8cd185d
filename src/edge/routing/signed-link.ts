/** A signed file link that names no sandbox: `/files?path=…&signature=…` on an address that all sandboxes share. */
import type { FileOperation, SignedLink } from "../../contract/runtime/file-signature.ts";
import type { ReadHeaders } from "../../http1/header-lines.ts";

const PATH = "/files";

interface LinkRequest {
  method: string;
  /** Path and query. */
  target: string;
  headers: ReadHeaders;
}

/** Undefined: the request is not such a link. */
export function signedLinkOf(request: LinkRequest): SignedLink | undefined {
  // A cheap test first: every management request passes here.
  if (!request.target.includes("signature=")) return undefined;
  const operation = operationOf(request);
  const url = URL.parse(request.target, "http://localhost");
  const signature = url?.searchParams.get("signature");
  if (operation === undefined || url?.pathname !== PATH || signature === undefined || signature === null)
    return undefined;
  const expiration = url.searchParams.get("signature_expiration");
  return {
    path: url.searchParams.get("path") ?? "",
    username: url.searchParams.get("username") ?? "",
    operation,
    // No one can have signed a value that is not a number; the runtime reports the error.
    expiration: expiration === null || expiration === "" ? undefined : Number(expiration),
    signature,
  };
}

/** A preflight belongs to the sandbox of the request that follows it. */
function operationOf(request: LinkRequest): FileOperation | undefined {
  const method = request.method === "OPTIONS" ? request.headers.get("access-control-request-method") : request.method;
  if (method === "GET") return "read";
  return method === "POST" ? "write" : undefined;
}
