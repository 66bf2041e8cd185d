/** Responses about sandboxes. */
import { z } from "zod";
import { dateTime, sandboxId, templateId } from "./identifiers.ts";
import { shownNetwork } from "./network.ts";
import { stringMap } from "./string-map.ts";

const shared = {
  templateID: templateId,
  sandboxID: sandboxId,
  clientID: z.string().describe("Deprecated; the same for every sandbox"),
  envdVersion: z.string().describe("Version of the runtime inside the sandbox"),
  alias: z.string().describe("First alias of the template, empty when it has none"),
};

/** The response to create, connect and resume. */
export const createdSandbox = z.object({
  ...shared,
  envdAccessToken: z.string().nullable().describe("Token for the runtime; null if the runtime requires none"),
  trafficAccessToken: z.string().nullable().describe("Required at sandbox URLs; null if traffic is public"),
  domain: z.null().describe("Deprecated"),
});

export const listedSandbox = z.object({
  ...shared,
  startedAt: dateTime.describe("Start of the current run, or of the last one when it is paused"),
  endAt: dateTime.describe("When the sandbox will end; when it is paused, the moment of the pause"),
  cpuCount: z.int32().min(1),
  memoryMB: z.int32().min(128),
  diskSizeMB: z.int32().min(0),
  state: z.enum(["running", "paused"]),
  metadata: stringMap(),
  volumeMounts: z.array(z.object({ name: z.string(), path: z.string() })),
});

export const sandboxDetail = listedSandbox.extend({
  envdAccessToken: z.string().nullable(),
  allowInternetAccess: z.boolean().nullable().describe("Null if the request did not set it"),
  domain: z.null().describe("Deprecated"),
  network: shownNetwork.describe("As sent, without the password"),
  lifecycle: z.object({ autoResume: z.boolean(), onTimeout: z.enum(["kill", "pause"]) }),
});

export type CreatedSandbox = z.infer<typeof createdSandbox>;
export type ListedSandbox = z.infer<typeof listedSandbox>;
export type SandboxDetail = z.infer<typeof sandboxDetail>;
