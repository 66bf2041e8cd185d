/** Content types of the Connect protocol on a real daemon. */
import { describe, expect, test } from "bun:test";
import { guestOfFile } from "../testing/guest-of-file.ts";

const guest = await guestOfFile();

test("an empty body is an empty message in the binary encoding", async () => {
  const headers = { "Content-Type": "application/proto" };
  const answer = await guest.fetch("/process.Process/List", { method: "POST", headers });
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/proto"]);
});

describe("the content type of a request", () => {
  const post = (path: string, type: string, headers: Record<string, string> = {}, body: BodyInit = "{}") =>
    guest.fetch(path, { method: "POST", headers: { "Content-Type": type, ...headers }, body });

  test.each([
    ["/process.Process/List", "text/plain", "application/json, application/proto"],
    ["/process.Process/List", "application/connect+json", "application/json, application/proto"],
    ["/process.Process/List", "application/grpc", "application/json, application/proto"],
    ["/process.Process/Start", "application/json", "application/connect+json, application/connect+proto"],
    ["/process.Process/Start", "application/grpc-web", "application/connect+json, application/connect+proto"],
  ])("%s as %s is 415", async (path, type, accepted) => {
    const answer = await post(path, type);
    expect([answer.status, answer.headers.get("accept-post"), await answer.text()]).toEqual([415, accepted, ""]);
  });

  test("JSON may name its character set and hold unknown fields", async () => {
    const answer = await post("/process.Process/List", "application/json; charset=utf-8", {}, '{"unknown":1}');
    expect([answer.status, await answer.json()]).toEqual([200, {}]);
  });
});
