/** Built-in templates in the list of templates. */
import { expect, test } from "bun:test";
import { DEFINITIONS } from "../../../templates/definitions.ts";
import type { TemplateDefinition } from "../../contract/template-definition.ts";
import { templateImage } from "../../setup/template-image.ts";
import type { TemplateOverview } from "../../store/templates.ts";
import { template } from "../../store/testing/rows.ts";
import { stateOf } from "./builtin-templates.ts";

const [definition] = DEFINITIONS as [TemplateDefinition];
const current = { status: "ready", image: templateImage(definition), checkpoint: null };
const older = { status: "ready", image: `${definition.name}-0000000000000000`, checkpoint: null };
const under = { status: "building", image: null, checkpoint: null };
const failed = { status: "error", image: null, checkpoint: null };

test.each<[string, TemplateOverview["builds"]]>([
  ["not built", []],
  ["not built (the last build failed)", [failed]],
  ["being built", [failed, under]],
  ["being built", [older, under]],
  ["an older version is built", [older, failed]],
  ["built", [older, current]],
  ["built", [failed, current]],
])("%s", (state, builds) => {
  const overview: TemplateOverview = { ...template(definition.id), teamSlug: null, names: [definition.name], builds };
  expect(stateOf(definition, overview)).toBe(state);
});

test("all built-in templates have unique names, ids and folders", () => {
  expect(new Set(DEFINITIONS.map(({ name }) => name)).size).toBe(DEFINITIONS.length);
  expect(new Set(DEFINITIONS.map(({ id }) => id)).size).toBe(DEFINITIONS.length);
  for (const { name, id } of DEFINITIONS) {
    expect(id).toMatch(/^[a-z0-9]{20}$/);
    expect(name).toMatch(/^[a-z][a-z0-9-]*$/);
  }
});
