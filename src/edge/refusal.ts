/**
 * Error responses of the edge itself: JSON for programs, a page for people, the same status for both. Clients compare
 * some messages and read fields in the order given here.
 */
import type { ReadHeaders } from "../http1/header-lines.ts";

/** Retry-After for a sandbox that could not be resumed. */
const EDGE_RETRY_AFTER_SECONDS = 5;

export type Refusal =
  | { reason: "sandbox-not-found" | "resume-forbidden" | "sandbox-in-transition"; sandboxId: string }
  | { reason: "traffic-token-missing" | "traffic-token-wrong"; sandboxId: string }
  | { reason: "limit-reached" | "resume-unavailable"; sandboxId: string }
  | { reason: "too-many-connections"; sandboxId: string; of: "sandbox" | "team"; most: number }
  | { reason: "closed-port"; sandboxId: string; port: number }
  | { reason: "internal-endpoint"; path: string }
  | { reason: "bad-request"; status: 400 | 405 | 500; text: string };

interface Page {
  title: string;
  advice: string;
}

const NOT_FOUND: Page = {
  title: "Sandbox Not Found",
  advice:
    "It may have reached its time limit, have been stopped, or never have existed. Start a new one and use its address.",
};
const CLOSED_PORT: Page = {
  title: "Closed Port Error",
  advice:
    "The sandbox is running, but no service answers on this port. Start one in the sandbox, then reload this page.",
};
const FORBIDDEN: Page = {
  title: "Unable to Resume Sandbox",
  advice:
    "The sandbox is paused, and this request may not resume it: it carries no token for that, or the team is blocked. " +
    "Resume it with its SDK or API key, or ask the operator.",
};
const TOKEN_MISSING: Page = {
  title: "Missing Traffic Access Token",
  advice: "The sandbox is private. A request needs its traffic access token, which its creator was given.",
};
const TOKEN_WRONG: Page = {
  title: "Invalid Traffic Access Token",
  advice: "The sandbox is private, and the traffic access token of this request is not the one of this sandbox.",
};
const IN_TRANSITION: Page = {
  title: "Sandbox Still Transitioning",
  advice: "The sandbox is being paused or copied. Reload this page in a moment.",
};
const LIMIT_REACHED: Page = {
  title: "Sandbox Limit Reached",
  advice:
    "The sandbox is paused, and its team runs as many sandboxes as it may. End another one, then reload this page.",
};
const TOO_MANY: Page = {
  title: "Too Many Connections",
  advice: "As many requests as may be are being answered. Close other pages or streams of it, then reload this page.",
};
const UNAVAILABLE: Page = {
  title: "Unable to Resume Sandbox Now",
  advice: "The sandbox is paused, and the machine has no room or no time to resume it. Reload this page in a moment.",
};
const INTERNAL: Page = {
  title: "Endpoint Not Available",
  advice: "This path is reserved for the server that runs the sandbox and cannot be used from outside.",
};

/** The response for a refusal, in the form that suits the client. */
export function refuse(refusal: Refusal, asked: ReadHeaders): Response {
  switch (refusal.reason) {
    case "sandbox-not-found": {
      const { sandboxId } = refusal;
      return answer({ sandboxId, message: "The sandbox was not found", code: 502 }, NOT_FOUND, asked);
    }
    case "traffic-token-missing": {
      const message = "The sandbox is private: the header e2b-traffic-access-token is missing";
      return answer({ sandboxId: refusal.sandboxId, message, code: 403 }, TOKEN_MISSING, asked);
    }
    case "traffic-token-wrong": {
      const message = "The sandbox is private: the header e2b-traffic-access-token holds another token";
      return answer({ sandboxId: refusal.sandboxId, message, code: 403 }, TOKEN_WRONG, asked);
    }
    case "resume-forbidden": {
      const message = "The sandbox is paused and cannot be resumed with these credentials";
      return answer({ sandboxId: refusal.sandboxId, message, code: 403 }, FORBIDDEN, asked);
    }
    case "sandbox-in-transition": {
      const message = "The sandbox is still being paused or copied; try again in a moment";
      return answer({ sandboxId: refusal.sandboxId, message, code: 409 }, IN_TRANSITION, asked);
    }
    case "limit-reached": {
      const message = "The sandbox is paused and its team has reached its limit of running sandboxes";
      return answer({ sandboxId: refusal.sandboxId, message, code: 429 }, LIMIT_REACHED, asked);
    }
    case "too-many-connections": {
      const { sandboxId, of, most } = refusal;
      const whose = of === "sandbox" ? "The sandbox" : "The sandbox's team";
      const message = `${whose} has ${most} requests and streams open, and may have no more; close some of them`;
      return answer({ sandboxId, message, code: 429, connectionLimit: most }, TOO_MANY, asked);
    }
    case "resume-unavailable": {
      const message = "The sandbox is paused and cannot be resumed just now; try again in a moment";
      const response = answer({ sandboxId: refusal.sandboxId, message, code: 503 }, UNAVAILABLE, asked);
      response.headers.set("retry-after", String(EDGE_RETRY_AFTER_SECONDS));
      return response;
    }
    case "closed-port": {
      const { sandboxId, port } = refusal;
      const message = "The sandbox is running but port is not open";
      return answer({ sandboxId, message, port, code: 502 }, CLOSED_PORT, asked);
    }
    case "internal-endpoint": {
      const message = "This endpoint is not available from outside the sandbox";
      return answer({ message, path: refusal.path, code: 404 }, INTERNAL, asked);
    }
    case "bad-request":
      return new Response(refusal.text, {
        status: refusal.status,
        headers: { "content-type": "text/plain; charset=utf-8" },
      });
  }
}

interface Body {
  sandboxId?: string;
  message: string;
  port?: number;
  path?: string;
  code: number;
  connectionLimit?: number;
}

function answer(body: Body, page: Page, asked: ReadHeaders): Response {
  if (!wantsPage(asked)) {
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
export function wantsPage(asked: ReadHeaders): boolean {
  const accept = asked.get("accept")?.toLowerCase() ?? "";
  if (accept.includes("application/json") && !accept.includes("text/html")) return false;
  const mode = asked.get("sec-fetch-mode")?.toLowerCase() ?? "";
  if (SCRIPTED_MODES.has(mode)) return false;
  if (mode !== "navigate" && (asked.get("x-requested-with") ?? "") !== "") return false;
  return BROWSER.test(asked.get("user-agent") ?? "");
}

function render(body: Body, page: Page): string {
  const facts: string[] = [];
  if (body.sandboxId !== undefined) facts.push(fact("Sandbox", body.sandboxId));
  if (body.port !== undefined) facts.push(fact("Port", String(body.port)));
  if (body.path !== undefined) facts.push(fact("Path", body.path));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(page.title)}</title>
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
<h1>${escapeHtml(page.title)}</h1>
<p>${escapeHtml(body.message)}.</p>
<p>${escapeHtml(page.advice)}</p>
<dl>${facts.join("")}${fact("Status", String(body.code))}</dl>
</main>
</body>
</html>
`;
}

function fact(name: string, value: string): string {
  return `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(value)}</dd>`;
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? "");
}
