/** Time until the first screenshot of a desktop, beside the same programs started plainly. */
import { Sandbox as Desktop } from "@e2b/desktop";
import { Sandbox } from "e2b";
import { Fault } from "../../../src/contract/fault.ts";
import { desktop } from "../../../templates/desktop/definition.ts";
import type { Context } from "../../context.ts";
import { interleave, timed } from "../../figures/samples.ts";
import type { Row } from "../../row.ts";
import { builtTemplate } from "../../sandboxes/built-in-template.ts";

const ROUNDS_MIN = 3;
const WARM_UP_ROUNDS = 1;
const PNG = [0x89, 0x50, 0x4e, 0x47];
/** Not the display of the template's snapshot, whose programs are ended first. */
const DISPLAY = ":9";
const PICTURE = "/tmp/plain.png";

/** The client's commands, except that they wait in the sandbox instead of polling from outside. */
const PLAINLY = [
  `Xvfb ${DISPLAY} -ac -screen 0 1024x768x24 -retro -dpi 96 -nolisten tcp > /dev/null 2>&1 &`,
  `until xdpyinfo -display ${DISPLAY} > /dev/null 2>&1; do sleep 0.02; done`,
  `DISPLAY=${DISPLAY} startxfce4 > /dev/null 2>&1 &`,
  `until pgrep -x xfce4-session && pgrep -x xfwm4 && pgrep -x xfdesktop; do sleep 0.02; done > /dev/null`,
  `DISPLAY=${DISPLAY} scrot --pointer ${PICTURE}`,
].join("\n");

export const desktopFirst: Row = {
  name: "desktop-first",
  what: "create → first screenshot of a desktop through the SDK",
  beside: { peer: "create of the same template, Xvfb and XFCE started by a command, and a screenshot", ratio: "cost" },
  async run(context) {
    const template = await builtTemplate(context, desktop);
    if ("notMeasured" in template) return template;
    const rounds = Math.max(ROUNDS_MIN, context.heavyRounds);
    return {
      pairs: await interleave(
        rounds,
        () => oursMs(context),
        () => plainMs(context),
        WARM_UP_ROUNDS,
      ),
    };
  },
};

async function oursMs(context: Context): Promise<number> {
  await context.untilReady();
  let made: Desktop | undefined;
  const ms = await timed(async () => {
    made = await Desktop.create(context.sdk);
    requirePicture(await made.screenshot());
  });
  await made?.kill();
  return ms;
}

async function plainMs(context: Context): Promise<number> {
  await context.untilReady();
  let made: Sandbox | undefined;
  const ms = await timed(async () => {
    made = await Sandbox.create(desktop.name, context.sdk);
    await made.commands.run(PLAINLY);
    requirePicture(await made.files.read(PICTURE, { format: "bytes" }));
  });
  await made?.kill();
  return ms;
}

function requirePicture(bytes: Uint8Array): void {
  if (PNG.some((byte, at) => bytes[at] !== byte)) throw new Fault(500, "a screenshot is not a PNG");
}
