import { expect, test } from "bun:test";
import { PATH_DEFAULT } from "../../contract/runtime/guest-programs.ts";
import { processVariables } from "./environment.ts";

const ada = { name: "ada", uid: 1000, gid: 1000, home: "/home/ada", groups: [1000] };
const settings = {
  sandboxId: "i1",
  templateId: "t1",
  envVars: { HOME: "/elsewhere", E2B_SANDBOX_ID: "forged", A: "sandbox", B: "sandbox" },
  accessTokens: ["secret-token"],
  defaultUser: "ada",
  defaultWorkdir: "",
};

test("later variables override earlier ones, and internal ones those of the create request", () => {
  expect(processVariables(ada, settings, { A: "process" }, "/bin")).toEqual({
    PATH: "/bin",
    HOME: "/elsewhere",
    USER: "ada",
    LOGNAME: "ada",
    A: "process",
    B: "sandbox",
    E2B_SANDBOX: "true",
    E2B_SANDBOX_ID: "i1",
    E2B_TEMPLATE_ID: "t1",
  });
});

test("a process's own variables override internal ones", () => {
  expect(processVariables(ada, settings, { E2B_SANDBOX_ID: "mine" }, "/bin").E2B_SANDBOX_ID).toBe("mine");
});

test("a guest without PATH gives processes the usual one", () => {
  expect(processVariables(ada, settings, {}, undefined).PATH).toBe(PATH_DEFAULT);
});
