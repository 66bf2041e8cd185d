import { expect, test } from "bun:test";
import { awsSigned } from "./aws-signature.ts";

const EXAMPLE = {
  url: new URL("https://example.amazonaws.com/"),
  headers: {},
  body: "",
  service: "service",
  region: "us-east-1",
  accessKeyId: "AKIDEXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
  now: Date.UTC(2015, 7, 30, 12, 36, 0),
} as const;

const CREDENTIAL = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request";

// Of the published test suite: get-vanilla, post-vanilla and post-header-key-sort.
const PUBLISHED = [
  ["GET", {}, "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"],
  ["POST", {}, "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"],
  [
    "POST",
    { "my-header1": "value1" },
    "host;my-header1;x-amz-date",
    "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
  ],
] as const;

test("the published examples get the published signatures", () => {
  for (const [method, headers, names, signature] of PUBLISHED) {
    expect(awsSigned({ ...EXAMPLE, method, headers })).toEqual({
      ...headers,
      "x-amz-date": "20150830T123600Z",
      authorization: `AWS4-HMAC-SHA256 Credential=${CREDENTIAL}, SignedHeaders=${names}, Signature=${signature}`,
    });
  }
});
