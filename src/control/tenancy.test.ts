/**
 * Two teams on one server cannot see each other's resources. The test calls every operation of the interface document
 * with the wrong team's keys, with none, and with revoked ones. The response about another team's resource equals, byte
 * for byte except for the requested name, the response about a resource that never existed.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createAccessToken, createApiKey, revokeAccessToken, revokeApiKey } from "./access/keys.ts";
import { routes } from "./routes/routes.ts";
import { BuildCalls } from "./testing/build-calls.ts";
import { ControlFixture } from "./testing/control-fixture.ts";
import { WALK } from "./testing/route-walk.ts";
import { absentNames, type Credentials, headersOf, makeTenant, type Named, type Tenant } from "./testing/tenant.ts";

interface Sent {
  path: string;
  body: string | undefined;
}

interface Answered {
  status: number;
  headers: string;
  body: string;
}

let fixture: ControlFixture;
let owner: Tenant;
let stranger: Tenant;
let absent: Named;
let paths: Record<string, Record<string, unknown>>;
beforeAll(async () => {
  fixture = await ControlFixture.open();
  owner = await makeTenant(fixture, "owners");
  stranger = await makeTenant(fixture, "strangers");
  absent = absentNames(fixture, owner.names);
  for (const [name, value] of Object.entries(absent)) {
    expect([name, value.length]).toEqual([name, owner.names[name as keyof Named].length]);
  }
  await fixture.passBy(10_000);
  paths = JSON.parse((await send("GET", { path: "/openapi.json", body: undefined }, {})).body).paths;
});
afterAll(() => fixture[Symbol.asyncDispose]());

async function send(method: string, { path, body }: Sent, headers: Record<string, string>): Promise<Answered> {
  const init: RequestInit = { method, headers };
  if (body !== undefined) init.body = body;
  const response = await fixture.control.handle(new Request(`http://localhost${path}`, init));
  // Headers that count the caller's own requests change with each of them.
  const kept = [...response.headers].filter(([name]) => name !== "x-request-id" && !name.startsWith("ratelimit-"));
  return { status: response.status, headers: JSON.stringify(kept), body: await response.text() };
}

/** All ways to call a route with these names. */
function questionsOf(route: string, named: Named): Sent[] {
  const [method = "", path = ""] = route.split(" ");
  const request = WALK[route]?.ask?.(named, stranger.names) ?? [{}];
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = named[name as keyof Named];
    if (value === undefined)
      throw new Error(`nobody has a {${name}} of ${route}; give one to every tenant of the test`);
    return value;
  });
  return request.map(({ body, query }) => ({
    path: query === undefined ? filled : `${filled}?${new URLSearchParams(query)}`,
    body: body === undefined ? (method === "PUT" ? "bytes" : undefined) : JSON.stringify(body),
  }));
}

/** The text for one set of names, rewritten as if for the other. */
function renamed(text: string, from: Named, to: Named): string {
  let result = text;
  for (const [name, value] of Object.entries(from)) result = result.replaceAll(value, to[name as keyof Named]);
  return result;
}

/** The shape of a response that creates something. */
function shapeOf(answer: Answered): unknown {
  const body = JSON.parse(answer.body === "" ? "null" : answer.body);
  return answer.status >= 400 ? answer : { status: answer.status, fields: Object.keys(body ?? {}) };
}

const auths = new Map(routes.map(({ method, path, auth }) => [`${method} ${path}`, auth]));
const authOf = (route: string) => auths.get(route) ?? "none";
const all = Object.keys(WALK);
/** Requests that create something go last: it may take a name that others ask for. */
const naming = all
  .filter((route) => !WALK[route]?.namesNothing)
  .toSorted((a, b) => Number(WALK[a]?.makes ?? false) - Number(WALK[b]?.makes ?? false));

test("every route of the document is walked", () => {
  const described = Object.entries(paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(all.toSorted()).toEqual(described.toSorted());
});

/** Mixed names, only some of them foreign: the owner of a template asks for another team's build of it. */
function mixtures(): [foreign: Named, none: Named][] {
  const parts: (keyof Named)[][] = [["buildID"], ["hash"], ["templateID"], ["snapshotID"], ["alias"]];
  return [
    [owner.names, absent],
    ...parts.map((part): [Named, Named] => {
      const of = (names: Named) => Object.fromEntries(part.map((name) => [name, names[name]]));
      return [
        { ...stranger.names, ...of(owner.names) },
        { ...stranger.names, ...of(absent) },
      ];
    }),
  ];
}

async function ownersView(): Promise<unknown[]> {
  const { sandboxID, restingID, templateID, webhookID } = owner.names;
  const seen = [];
  for (const path of [
    `/sandboxes/${sandboxID}`,
    `/sandboxes/${restingID}`,
    "/v2/sandboxes",
    "/snapshots",
    "/v2/templates",
    `/templates/${templateID}`,
    `/templates/${templateID}/tags`,
    `/events/sandboxes`,
    `/events/webhooks/${webhookID}/deliveries`,
    `/v2/sandboxes/${sandboxID}/logs`,
    "/volumes",
  ]) {
    seen.push([path, await send("GET", { path, body: undefined }, headersOf("key", owner.credentials))]);
  }
  return [...seen, await send("GET", { path: "/api-keys", body: undefined }, headersOf("member", owner.credentials))];
}

describe("with the keys of another team", () => {
  let before: unknown[];
  beforeAll(async () => {
    before = await ownersView();
  });

  // First, because later a stranger has resources with the names of others.
  test.each(all.filter((route) => WALK[route]?.namesNothing))("%s shows nothing of the owner", async (route) => {
    const [method = ""] = route.split(" ");
    for (const question of questionsOf(route, stranger.names)) {
      const answer = await send(method, question, headersOf(authOf(route), stranger.credentials));
      expect(answer.status).toBeLessThan(300);
      expectNothingOf(owner, answer, "");
    }
  });

  test.each(["/v2/sandboxes", "/snapshots", "/v2/templates"])(
    "a page of %s has only the caller's entries",
    async (list) => {
      const path = `${list}?limit=1`;
      const first = await send("GET", { path, body: undefined }, headersOf("key", owner.credentials));
      const token = new Map<string, string>(JSON.parse(first.headers)).get("x-next-token");
      const next = { path: `${path}&nextToken=${token}`, body: undefined };
      expectNothingOf(owner, await send("GET", next, headersOf("key", stranger.credentials)), next.path);
    },
  );

  test("a build from the owner's template fails as from an unknown one", async () => {
    const calls = new BuildCalls(fixture);
    const { apiKey } = stranger.credentials;
    const reasons: unknown[] = [];
    for (const { templateID, alias, slug } of [owner.names, absent]) {
      for (const fromTemplate of [templateID, alias, `${slug}/${alias}`]) {
        const build = await calls.request(`from-${reasons.length}`, {}, apiKey);
        const { status, body } = await calls.start(build, { fromTemplate }, apiKey);
        expect([fromTemplate, status, body]).toEqual([fromTemplate, 202, undefined as never]);
        const { templateID: _, buildID: __, ...ended } = await calls.ended(build, apiKey);
        expect(ended.status).toBe("error");
        reasons.push(renamed(JSON.stringify(ended), owner.names, absent));
      }
    }
    expect(reasons.slice(0, 3)).toEqual(reasons.slice(3));
  });

  test.each(naming)("%s reveals nothing", async (route) => {
    const [method = ""] = route.split(" ");
    const headers = headersOf(authOf(route), stranger.credentials);
    for (const [foreign, none] of mixtures()) {
      const others = questionsOf(route, none);
      for (const [at, question] of questionsOf(route, foreign).entries()) {
        const other = others[at];
        if (other === undefined || Bun.deepEquals(question, other)) continue;
        const answer = await send(method, question, headers);
        const expected = await send(method, other, headers);
        const request = `${method} ${question.path} ${question.body ?? ""}`;
        const reported = { ...answer, body: renamed(answer.body, foreign, none) };
        const shape = WALK[route]?.makes ? shapeOf : (same: Answered) => same;
        expect({ request, ...Object(shape(reported)) }).toEqual({ request, ...Object(shape(expected)) });
        expectNothingOf(owner, answer, request);
      }
    }
  });

  test.each(all.filter((route) => authOf(route) === "member"))("%s rejects another team", async (route) => {
    const [method = ""] = route.split(" ");
    for (const question of questionsOf(route, owner.names)) {
      const as = (teamID: string) => headersOf("member", { ...stranger.credentials, teamID });
      const answer = await send(method, question, as(owner.names.teamID));
      expect(answer.status).toBe(403);
      const reported = { ...answer, body: renamed(answer.body, owner.names, absent) };
      expect(reported).toEqual(await send(method, question, as(absent.teamID)));
    }
  });

  test("nothing of the owner's has changed", async () => {
    expect(await ownersView()).toEqual(before);
  });
});

/** Except for values that the caller has sent itself. */
function expectNothingOf({ names, marks, credentials }: Tenant, { body, headers }: Answered, request: string): void {
  const { teamID: _, ...secrets } = credentials;
  const own = Object.values({ ...names, ...secrets, signature: "", expires: "", bytes: "" }).filter(
    (each) => each !== "",
  );
  const shown = [...own, ...marks].filter((each) => !request.includes(each) && `${headers}${body}`.includes(each));
  expect({ request, shown }).toEqual({ request, shown: [] });
}

describe("without a valid key", () => {
  const guarded = all.filter((route) => authOf(route) !== "none");
  let revoked: Credentials;
  let unknown: Credentials;
  beforeAll(async () => {
    const { teamID } = owner.names;
    const { key, secret: apiKey } = await createApiKey(fixture, { teamId: teamID, name: "revoked", createdBy: null });
    await revokeApiKey(fixture, teamID, key.id);
    const userId = (await fixture.store.people.userByEmail("owners@example.com"))?.id ?? "";
    const { token, secret: accessToken } = await createAccessToken(fixture, { userId, name: "revoked" });
    await revokeAccessToken(fixture, userId, token.id);
    const forged = (signature: string) => owner.credentials.volumeToken.replace(/[^.]*$/, signature);
    revoked = { apiKey, accessToken, teamID, volumeToken: forged("A".repeat(43)) };
    unknown = {
      apiKey: fixture.ids.apiKey(),
      accessToken: fixture.ids.accessToken(),
      teamID,
      volumeToken: forged("B".repeat(43)),
    };
  });

  test.each(guarded)("%s is rejected", async (route) => {
    const [method = ""] = route.split(" ");
    const auth = authOf(route);
    for (const question of questionsOf(route, owner.names)) {
      const absentQuestions = questionsOf(route, absent);
      const none = await send(method, question, {});
      expect([question.path, none.status]).toEqual([question.path, 401]);
      expectNothingOf(owner, none, question.path);
      const answer = await send(method, question, headersOf(auth, revoked));
      expect([question.path, answer.status]).toEqual([question.path, 401]);
      expect(answer).toEqual(await send(method, question, headersOf(auth, unknown)));
      for (const other of absentQuestions) expect(await send(method, other, headersOf(auth, revoked))).toEqual(answer);
      // Credentials for other kinds of routes open nothing here.
      for (const kind of ["key", "bearer", "volume"]) {
        if (kind === auth || (kind === "bearer" && (auth === "member" || auth === "login"))) continue;
        expect([kind, (await send(method, question, headersOf(kind, owner.credentials))).status]).toEqual([kind, 401]);
      }
    }
  });
});

/** Last, because it removes what the other tests look at. */
test("with the owner's keys every request of the walk succeeds", async () => {
  const order = (route: string) => (/^DELETE .*-(?:keys|tokens)/.test(route) ? 2 : route.startsWith("DELETE") ? 1 : 0);
  const refused = [];
  for (const route of naming.toSorted((a, b) => order(a) - order(b))) {
    const [method = ""] = route.split(" ");
    for (const question of questionsOf(route, owner.names)) {
      const { status, body } = await send(method, question, headersOf(authOf(route), owner.credentials));
      // The walk also asks for templates named like ids. They are rejected for every team, with one text.
      const isIdAsName = status === 400 && body.includes("has the form of a template id");
      const isRight = status < 300 || status === 409 || status === WALK[route]?.ownStatus || isIdAsName;
      if (!isRight) refused.push([method, question.path, question.body, status, body]);
    }
  }
  expect(refused).toEqual([]);
});
