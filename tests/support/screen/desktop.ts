/** Desktops for tests, through the official client, on a server that has the template. */
import { beforeAll } from "bun:test";
import { CommandExitError, Sandbox, type SandboxOpts } from "@e2b/desktop";
import type { TestServer } from "../server.ts";
import { templateServer } from "../template-server.ts";
import { until } from "../until.ts";
import { type Picture, readPicture } from "./picture.ts";

const LIFE_MS = 600_000;

export const desktopServer = () => templateServer("desktop");

/** The client's options. With this domain, host names of sandboxes lead to the server. */
export function optionsOf({ options, url }: TestServer): SandboxOpts {
  return { ...options, domain: `localhost:${new URL(url).port}`, timeoutMs: LIFE_MS };
}

/** One desktop for all tests of a file. */
export function desktopOfFile(server: () => TestServer): () => Sandbox {
  let desktop: Sandbox | undefined;
  beforeAll(async () => {
    desktop = await Sandbox.create(optionsOf(server()));
  });
  return () => {
    if (desktop === undefined) throw new Error("there is no desktop");
    return desktop;
  };
}

export async function pictureOf(desktop: Sandbox): Promise<Picture> {
  return readPicture(await desktop.screenshot());
}

interface Window {
  colour: string;
  title: string;
}

/** Of 300 × 200 points and the frame, drawn when this is over. */
export async function openColouredWindow(desktop: Sandbox, { colour, title }: Window): Promise<void> {
  const look = `-bg '${colour}' -fg '${colour}' -buttons '' -geometry 300x200+120+240`;
  await desktop.commands.run(`xmessage -title '${title}' ${look} .`, { background: true, timeoutMs: 0 });
  await until(`a window of ${colour} is on the screen`, async () => isWindowIn(await pictureOf(desktop), colour));
}

const WINDOW_POINTS = 300 * 200;

/** Objects on top of the window, such as the pointer, hide only a little of it. */
export function isWindowIn(picture: Pick<Picture, "count">, colour: string): boolean {
  const points = picture.count(colour);
  return points > 0.9 * WINDOW_POINTS && points <= WINDOW_POINTS;
}

/** The title of the focused window. Undefined while the focus moves away from a closing window. */
export async function currentTitle(desktop: Sandbox): Promise<string | undefined> {
  try {
    return await desktop.getWindowTitle(await desktop.getCurrentWindowId());
  } catch (error) {
    if (error instanceof CommandExitError) return undefined;
    throw error;
  }
}
