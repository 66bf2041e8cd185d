import { expect, test } from "bun:test";
import { CONTROL_PREFIX } from "../../contract/runtime/guest-control.ts";
import { internalPath } from "./control-path.ts";

test.each([
  "/init",
  "/init/",
  "//init",
  "/files/../init",
  "/./init",
  "/init?x=1",
  "/%69nit",
  "/%2569nit",
  "/files/%2e%2e/init",
  "/files%2F..%2Finit",
  "\\init",
  "/x\\..\\init",
  "/collapse",
  "/freeze",
  "/fsfreeze",
  "/fsthaw",
  "/unfreeze",
  "/upgrade",
  "//upgrade/",
  "/init%2f",
  "/%2finit",
  "/init%3f/../init",
])("the control endpoint of E2B is rejected as %s", (target) => {
  expect(internalPath(target)).toBeDefined();
});

test.each([
  "/control",
  "/control/",
  "/control/ping",
  "/control/ping?x",
  "//control/x",
  "/control%2Fx",
  "/files/../control/ping",
  "/files/x/../../control/ping",
  "/%63ontrol/ping",
  "/%63%6f%6e%74%72%6f%6c/ping",
  "/%2563ontrol/ping",
  "/%252563ontrol/ping",
  "/control%5Cping",
  "/files/..%5ccontrol/ping",
  "\\control\\ping",
  "/..%2f..%2fcontrol/ping",
  "/%2e/control/ping",
  "/Control/ping",
  "/CONTROL",
  "/control//ping",
  "/control/../control/ping",
  "/control/anything/else",
  "/x/..//control/ping",
  "/control/./ping",
  "/control%252fping",
  "/x/%2e%2e/control/ping",
  "/control\\ping",
  "/%5ccontrol/ping",
])("the control channel is refused as %s", (target) => {
  expect(internalPath(target)).toBeDefined();
});

test("a path with too many layers of encoding is refused", () => {
  let deep = "%63ontrol";
  for (let level = 0; level < 20; level += 1) deep = deep.replaceAll("%", "%25");
  expect(internalPath(`/${deep}/ping`)).toBeDefined();
});

test("the response names the normalised path", () => {
  expect(internalPath("/files/../%69nit/?q")).toBe("/init");
});

test.each([
  "/",
  "/init/x",
  "/initialize",
  "/INIT",
  "/Init",
  "/controls",
  "/controller/x",
  "/files/control/x",
  "/files?path=/control/ping",
  "/files?path=%2Finit",
  "/control/../files",
  "/process.Process/Start",
  "/100%",
  "/%zz",
])("%s passes", (target) => {
  expect(internalPath(target)).toBeUndefined();
});

test("the paths above match the contract", () => {
  expect(CONTROL_PREFIX).toBe("/control/");
});
