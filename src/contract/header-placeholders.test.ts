import { expect, test } from "bun:test";
import { fuzzText } from "../base/testing/fuzz.ts";
import { type HeaderPart, headerParts } from "./header-placeholders.ts";

const textOf = (part: HeaderPart) =>
  "text" in part
    ? part.text
    : "secret" in part
      ? `\${e2b.secrets.${part.secret}}`
      : `\${e2b.identity.tokens.${part.token}}`;

test.each<[string, HeaderPart[] | undefined]>([
  ["", []],
  ["Bearer x", [{ text: "Bearer x" }]],
  [`Bearer \${e2b.secrets.My-key_1}`, [{ text: "Bearer " }, { secret: "My-key_1" }]],
  [`\${e2b.secrets.a}:\${e2b.identity.tokens.b.c}.`, [{ secret: "a" }, { text: ":" }, { token: "b.c" }, { text: "." }]],
  [`\${other} $ {} \${e2bx}`, [{ text: `\${other} $ {} \${e2bx}` }]],
  [`$\${e2b.secrets.a}}`, [{ text: "$" }, { secret: "a" }, { text: "}" }]],
  [`\${e2b.secrets.}`, undefined],
  [`\${e2b.secrets}`, undefined],
  [`\${e2b.secrets.a`, undefined],
  [`\${e2b.secrets.\${e2b.secrets.a}}`, undefined],
  [`\${e2b.secrets.a\n}`, undefined],
  [`\${e2b.identity.a}`, undefined],
  [`\${e2b.}`, undefined],
])("%j", (value, parts) => expect(headerParts(value)).toEqual(parts as HeaderPart[]));

fuzzText("a value's parts make up the value again", {
  seeds: [`Bearer \${e2b.secrets.a}`, `\${e2b.identity.tokens.b}\${e2b.secrets.c}`, "plain", `\${e2b.`.repeat(300)],
  check(value) {
    const parts = headerParts(value);
    if (parts === undefined) expect(value).toContain(`\${e2b.`);
    else expect(parts.map(textOf).join("")).toBe(value);
  },
});
