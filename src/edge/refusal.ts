/**
 * Error responses of the edge itself: JSON for programs, a page for people, the same status for both. Clients compare
 * some messages and read fields in the order given here.
 */
import type { ReadHeaders } from "../http1/header-lines.ts";

/** Retry-After for a sandbox that could not be resumed. */
const EDGE_RETRY_AFTER_SECONDS = 5;

export type Refusal =
  | { reason: "sandbox-not-found" | "sandbox-left" | "resume-forbidden" | "sandbox-in-transition"; sandboxId: string }
  | { reason: "traffic-token-missing" | "traffic-token-wrong"; sandboxId: string }
  | { reason: "limit-reached" | "resume-unavailable"; sandboxId: string }
  | { reason: "too-many-connections"; sandboxId: string; scope: "sandbox" | "team"; max: number }
  | { reason: "closed-port"; sandboxId: string; port: number }
  | { reason: "internal-endpoint"; path: string }
  | { reason: "bad-request"; status: 400 | 405 | 500; text: string };

/** Status, message for programs, and a page's title and advice for people. */
interface RefusalText {
  code: number;
  message: string;
  title: string;
  advice: string;
}

const REFUSAL_TEXTS: Readonly<Record<Exclude<Refusal["reason"], "bad-request">, RefusalText>> = {
  "sandbox-not-found": {
    code: 502,
    message: "The sandbox was not found",
    title: "Sandbox Not Found",
    advice:
      "It may have reached its time limit, have been stopped, or never have existed. Start a new one and use its address.",
  },
  "sandbox-left": {
    code: 502,
    message: "The sandbox was paused or ended before it responded",
    title: "Sandbox Paused or Ended",
    advice: "The sandbox was paused or ended while it handled this request. Whether it did its work is unknown.",
  },
  "closed-port": {
    code: 502,
    message: "The sandbox is running but port is not open",
    title: "Closed Port Error",
    advice:
      "The sandbox is running, but no service answers on this port. Start one in the sandbox, then reload this page.",
  },
  "resume-forbidden": {
    code: 403,
    message: "The sandbox is paused and cannot be resumed with these credentials",
    title: "Unable to Resume Sandbox",
    advice:
      "The sandbox is paused, and this request may not resume it: it carries no token for that, or the team is blocked. " +
      "Resume it with its SDK or API key, or ask the operator.",
  },
  "traffic-token-missing": {
    code: 403,
    message: "The sandbox is private: the header e2b-traffic-access-token is missing",
    title: "Missing Traffic Access Token",
    advice: "The sandbox is private. A request needs its traffic access token, which its creator was given.",
  },
  "traffic-token-wrong": {
    code: 403,
    message: "The sandbox is private: the header e2b-traffic-access-token holds another token",
    title: "Invalid Traffic Access Token",
    advice: "The sandbox is private, and the traffic access token of this request is not the one of this sandbox.",
  },
  "sandbox-in-transition": {
    code: 409,
    message: "The sandbox is still being paused or copied; try again in a moment",
    title: "Sandbox Still Transitioning",
    advice: "The sandbox is being paused or copied. Reload this page in a moment.",
  },
  "limit-reached": {
    code: 429,
    message: "The sandbox is paused and its team has reached its limit of running sandboxes",
    title: "Sandbox Limit Reached",
    advice:
      "The sandbox is paused, and its team runs as many sandboxes as it may. End another one, then reload this page.",
  },
  "too-many-connections": {
    code: 429,
    message: "open requests and streams, its limit; close some of them",
    title: "Too Many Connections",
    advice:
      "The limit of concurrent requests is reached. Close other pages or streams of this sandbox, then reload this page.",
  },
  "resume-unavailable": {
    code: 503,
    message: "The sandbox is paused and cannot be resumed just now; try again in a moment",
    title: "Unable to Resume Sandbox Now",
    advice: "The sandbox is paused, and the server cannot resume it now. Reload this page in a moment.",
  },
  "internal-endpoint": {
    code: 404,
    message: "This endpoint is not available from outside the sandbox",
    title: "Endpoint Not Available",
    advice: "This path is reserved for the server that runs the sandbox and cannot be used from outside.",
  },
};

/** The response for a refusal, in the form that suits the client. */
export function responseTo(refusal: Refusal, requestHeaders: ReadHeaders): Response {
  if (refusal.reason === "bad-request") {
    const headers = { "content-type": "text/plain; charset=utf-8" };
    return new Response(refusal.text, { status: refusal.status, headers });
  }
  const texts = REFUSAL_TEXTS[refusal.reason];
  const response = toResponse(bodyOf(refusal, texts), texts, requestHeaders);
  if (refusal.reason === "resume-unavailable") response.headers.set("retry-after", String(EDGE_RETRY_AFTER_SECONDS));
  return response;
}

function bodyOf(refusal: Exclude<Refusal, { reason: "bad-request" }>, { code, message }: RefusalText): Body {
  if (refusal.reason === "internal-endpoint") return { message, path: refusal.path, code };
  const { sandboxId } = refusal;
  if (refusal.reason === "closed-port") return { sandboxId, message, port: refusal.port, code };
  if (refusal.reason !== "too-many-connections") return { sandboxId, message, code };
  const { scope, max } = refusal;
  const whose = scope === "sandbox" ? "The sandbox" : "The sandbox's team";
  return { sandboxId, message: `${whose} has ${max} ${message}`, code, connectionLimit: max };
}

interface Body {
  sandboxId?: string;
  message: string;
  port?: number;
  path?: string;
  code: number;
  connectionLimit?: number;
}

function toResponse(body: Body, page: RefusalText, requestHeaders: ReadHeaders): Response {
  if (!wantsPage(requestHeaders)) {
    return new Response(JSON.stringify(body), {
      status: body.code,
      headers: { "content-type": "application/json; charset=utf-8" },
    });
  }
  return new Response(render(body, page), {
    status: body.code,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    },
  });
}

const SCRIPTED_MODES: ReadonlySet<string> = new Set(["cors", "no-cors", "same-origin", "websocket"]);
const BROWSER = /mozilla|chrome|safari|firefox|edge|opera|msie/i;

/** Whether a person navigates here with a browser, as opposed to a program or a page's script. */
export function wantsPage(requestHeaders: ReadHeaders): boolean {
  const accept = requestHeaders.get("accept")?.toLowerCase() ?? "";
  if (accept.includes("application/json") && !accept.includes("text/html")) return false;
  const mode = requestHeaders.get("sec-fetch-mode")?.toLowerCase() ?? "";
  if (SCRIPTED_MODES.has(mode)) return false;
  if (mode !== "navigate" && (requestHeaders.get("x-requested-with") ?? "") !== "") return false;
  return BROWSER.test(requestHeaders.get("user-agent") ?? "");
}

function render(body: Body, page: RefusalText): string {
  const facts: string[] = [];
  if (body.sandboxId !== undefined) facts.push(fact("Sandbox", body.sandboxId));
  if (body.port !== undefined) facts.push(fact("Port", String(body.port)));
  if (body.path !== undefined) facts.push(fact("Path", body.path));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${Bun.escapeHTML(page.title)}</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { margin: 0; min-height: 100vh; display: grid; place-items: center }
main { max-width: 34rem; padding: 2rem }
h1 { font-size: 1.4rem; margin: 0 0 .5rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: 1.5rem 0 0; font-size: .9rem }
dt { opacity: .65 }
dd { margin: 0; font-family: ui-monospace, monospace; overflow-wrap: anywhere }
</style>
</head>
<body>
<main>
<h1>${Bun.escapeHTML(page.title)}</h1>
<p>${Bun.escapeHTML(body.message)}.</p>
<p>${Bun.escapeHTML(page.advice)}</p>
<dl>${facts.join("")}${fact("Status", String(body.code))}</dl>
</main>
</body>
</html>
`;
}

function fact(name: string, value: string): string {
  return `<dt>${Bun.escapeHTML(name)}</dt><dd>${Bun.escapeHTML(value)}</dd>`;
}
