/** The OAuth endpoints for the tokens of a login: refresh (RFC 6749, section 6) and revoke (RFC 7009). */
import { Fault } from "../../contract/fault.ts";
import type { Logins } from "../access/logins.ts";
import type { Page, PageRequest } from "../http/page.ts";
import type { Parts } from "../parts.ts";
import { fieldsOf } from "./form-fields.ts";
import { visitOf } from "./visit.ts";

const NO_STORE = { "Cache-Control": "no-store", Pragma: "no-cache" };

export class OAuthEndpoints {
  constructor(
    private readonly parts: Pick<Parts, "clock">,
    private readonly logins: Logins,
  ) {}

  readonly pages: readonly Page[] = [
    oauthEndpoint("/oauth/token", (request, from) => this.#refresh(request, from)),
    oauthEndpoint("/oauth/revoke", (request, from) => this.#revoke(request, from)),
  ];

  async #refresh(request: Request, from: PageRequest): Promise<Response> {
    const fields = await fieldsOf(request, this.parts.clock);
    if (fields.get("grant_type") !== "refresh_token") throw oauthFault("unsupported_grant_type", "use refresh_token");
    const visit = visitOf(from, "POST /oauth/token");
    const pair = await this.logins.refresh(fields.get("refresh_token") ?? "", visit);
    if (pair === undefined) throw oauthFault("invalid_grant", "this refresh token is not valid any more; log in again");
    const { accessToken, refreshToken, expiresInSeconds } = pair;
    const body = { access_token: accessToken, refresh_token: refreshToken, expires_in: expiresInSeconds };
    return Response.json({ token_type: "Bearer", ...body }, { headers: NO_STORE });
  }

  /** Success also for a token that is not valid: the standard requires it. */
  async #revoke(request: Request, from: PageRequest): Promise<Response> {
    const token = (await fieldsOf(request, this.parts.clock)).get("token");
    if (token === null) throw oauthFault("invalid_request", "send the field token");
    await this.logins.revoke(token, visitOf(from, "POST /oauth/revoke"));
    return new Response(null, { status: 200, headers: { ...NO_STORE, "Content-Length": "0" } });
  }
}

/** The error codes of RFC 6749, section 5.2. */
function oauthEndpoint(path: string, answer: Page["answer"]): Page {
  const refuse = ({ status, message, headers, errorCode }: Fault) => {
    const error = errorCode ?? (status >= 500 ? "server_error" : "invalid_request");
    return Response.json({ error, error_description: message }, { status, headers: { ...NO_STORE, ...headers } });
  };
  return { method: "POST", path, answer, refuse };
}

function oauthFault(errorCode: string, message: string): Fault {
  return new Fault(400, message, { errorCode });
}
