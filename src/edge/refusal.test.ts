import { describe, expect, test } from "bun:test";
import { responseTo, wantsPage } from "./refusal.ts";

const CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36";
const curl = new Headers({ "user-agent": "curl/8.5.0", accept: "*/*" });
const browser = new Headers({ "user-agent": CHROME, accept: "text/html,*/*;q=0.8", "sec-fetch-mode": "navigate" });

describe("for programs an error is JSON with these members", () => {
  test("sandbox not found", async () => {
    const response = responseTo({ reason: "sandbox-not-found", sandboxId: "iabc" }, curl);
    expect(response.status).toBe(502);
    expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(await response.text()).toBe('{"sandboxId":"iabc","message":"The sandbox was not found","code":502}');
  });

  test("no capacity for a resume, with Retry-After", async () => {
    const response = responseTo({ reason: "resume-unavailable", sandboxId: "iabc" }, curl);
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await response.text()).toBe(
      '{"sandboxId":"iabc","message":"The sandbox is paused and cannot be resumed just now; try again in a moment","code":503}',
    );
  });

  test("closed port", async () => {
    const response = responseTo({ reason: "closed-port", sandboxId: "iabc", port: 3000 }, curl);
    expect(response.status).toBe(502);
    expect(await response.text()).toBe(
      '{"sandboxId":"iabc","message":"The sandbox is running but port is not open","port":3000,"code":502}',
    );
  });

  test("internal endpoint", async () => {
    const response = responseTo({ reason: "internal-endpoint", path: "/init" }, curl);
    expect(response.status).toBe(404);
    expect(await response.text()).toBe(
      '{"message":"This endpoint is not available from outside the sandbox","path":"/init","code":404}',
    );
  });
});

test("a wrongly addressed request is answered in plain text, even for a browser", async () => {
  const response = responseTo({ reason: "bad-request", status: 400, text: "Invalid sandbox ID" }, browser);
  expect(response.status).toBe(400);
  expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
  expect(await response.text()).toBe("Invalid sandbox ID");
});

test("for a browser an error is a page with the same status", async () => {
  const response = responseTo({ reason: "closed-port", sandboxId: "iabc", port: 3000 }, browser);
  expect(response.status).toBe(502);
  expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
  const page = await response.text();
  expect(page).toContain("<title>Closed Port Error</title>");
  expect(page).toContain("<dd>3000</dd>");
  expect(page).not.toMatch(/src=|href=|url\(/);
});

test("the client's text is escaped", async () => {
  const path = `/control/<script>alert("1")</script>'&`;
  const page = await responseTo({ reason: "internal-endpoint", path }, browser).text();
  expect(page).not.toContain("<script>");
  expect(page).toContain("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#x27;&amp;");
});

describe("a page is for navigation in a browser", () => {
  test.each([
    [true, { "user-agent": CHROME }],
    [true, { "user-agent": "MSIE 6.0" }],
    [true, { "user-agent": CHROME, accept: "text/html, application/json" }],
    [true, { "user-agent": CHROME, "sec-fetch-mode": "navigate", "x-requested-with": "XMLHttpRequest" }],
    [false, {}],
    [false, { "user-agent": "curl/8" }],
    [false, { "user-agent": "curl/8", "sec-fetch-mode": "navigate" }],
    [false, { "user-agent": CHROME, accept: "application/json" }],
    [false, { "user-agent": CHROME, "x-requested-with": "XMLHttpRequest" }],
    [false, { "user-agent": CHROME, "sec-fetch-mode": "cors" }],
    [false, { "user-agent": CHROME, "sec-fetch-mode": "no-cors" }],
    [false, { "user-agent": CHROME, "sec-fetch-mode": "same-origin" }],
    [false, { "user-agent": CHROME, "sec-fetch-mode": "websocket" }],
  ] as [boolean, Record<string, string>][])("%p for %o", (expected, headers) => {
    expect(wantsPage(new Headers(headers))).toBe(expected);
  });
});
