/**
 * The pages of a login as HTML. No script, no image and nothing from another address: the policy of each page forbids
 * them. Hono's `html` escapes every value.
 */
import { html, raw } from "hono/html";
import { policySource } from "./return-address.ts";

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;max-width:28rem;margin:3rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.05rem;margin-top:2rem}label{display:block;margin:.8rem 0 .2rem}
input{font:inherit;width:100%;box-sizing:border-box;padding:.45rem;border:1px solid #888;border-radius:4px}
button,.button{font:inherit;margin:1rem .5rem 0 0;padding:.45rem 1rem;border:1px solid #234;border-radius:4px;background:#234;
color:#fff;text-decoration:none;display:inline-block}button.plain{background:#fff;color:#234}
.error{border-left:4px solid #b00;padding-left:.8rem}code{overflow-wrap:anywhere}`;
const STYLE_HASH = `'sha256-${new Bun.CryptoHasher("sha256").update(STYLE).digest("base64")}'`;

type Html = ReturnType<typeof html>;

interface PageOptions {
  status?: number;
  headers?: Record<string, string>;
  /** Origin to which the page's form may lead besides this server (`form-action`). */
  formTarget?: string;
}

interface SignIn {
  /** The path at which this server begins, behind a proxy. */
  path: string;
  returnTo: string;
  /** Proves that this browser got this page. */
  form: string;
  /** The name of the issuer, and the address that begins a login with it. */
  issuer?: { name: string; address: string } | undefined;
  error?: string | undefined;
}

export function signInPage(given: SignIn, shown: PageOptions = {}): Promise<Response> {
  const { path, returnTo, form, issuer, error } = given;
  const hidden = html`<input type="hidden" name="form" value="${form}">`;
  return page(
    "Sign in",
    html`<p>The program at <code>${returnTo}</code> on your computer asks for access, as <code>e2b auth login</code> does.
If you did not start it, close this page.</p>
${error === undefined ? "" : html`<p class="error" role="alert">${sentences(error)}</p>`}
${issuer === undefined ? "" : html`<p><a class="button" href="${issuer.address}">Sign in with ${issuer.name}</a></p>`}
<form method="post" action="${path}/login">${hidden}
<h2>With a password</h2>
<label for="email">Email address</label><input id="email" name="email" type="email" maxlength="254" autocomplete="username" required>
<label for="password">Password</label><input id="password" name="password" type="password" maxlength="256" autocomplete="current-password" required>
<button>Sign in</button></form>
<form method="post" action="${path}/login">${hidden}
<h2>With an access token or API key</h2>
<label for="secret">sk_e2b_… or e2b_…</label><input id="secret" name="secret" type="password" maxlength="256" autocomplete="off" required>
<button>Sign in</button></form>`,
    shown,
  );
}

export function consentPage(given: { path: string; returnTo: string; name: string; grant: string }): Promise<Response> {
  const { path, returnTo, name, grant } = given;
  return page(
    "Allow access?",
    html`<p>Signed in as <strong>${name}</strong>.</p>
<p>The program at <code>${returnTo}</code> on your computer will be able to use this account until it logs out. Allow this
only if you have just started <code>e2b auth login</code> there.</p>
<form method="post" action="${path}/login/allow"><input type="hidden" name="grant" value="${grant}">
<button name="decision" value="allow">Allow</button><button class="plain" name="decision" value="deny">Deny</button></form>`,
    { formTarget: policySource(returnTo) },
  );
}

export function messagePage(title: string, message: string, shown: PageOptions = {}): Promise<Response> {
  return page(title, html`<p>${sentences(message)}</p>`, shown);
}

/** Messages of the API begin in lower case, end without a full stop, and may have a second line. */
function sentences(message: string): string {
  const whole = (line: string) => line.replace(/^[a-z]+(?= )/, capitalised) + (/[.!?]$/.test(line) ? "" : ".");
  return message.split("\n").map(whole).join(" ");
}

function capitalised(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

async function page(
  title: string,
  body: Html,
  { status = 200, headers = {}, formTarget = "" }: PageOptions,
): Promise<Response> {
  const text = await html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title} – Sandlot</title>
<style>${raw(STYLE)}</style></head>
<body><h1>${title}</h1>${body}</body></html>`;
  return new Response(String(text), { status, headers: { ...pageHeaders(formTarget), ...headers } });
}

/** Also for redirects, whose address holds tokens. */
export function pageHeaders(formTarget = ""): Record<string, string> {
  const policy = [
    "default-src 'none'",
    `style-src ${STYLE_HASH}`,
    `form-action 'self' ${formTarget}`.trim(),
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ];
  return {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": policy.join("; "),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    // With `no-referrer`, browsers would not say that a form comes from this page.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
  };
}
