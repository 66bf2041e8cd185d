/** Time of a build with ten small steps: fully cached beside a create, and uncached beside buildah. */
import type { Context } from "../../context.ts";
import { interleave, timed } from "../../figures/samples.ts";
import { Buildah } from "../../peers/buildah.ts";
import type { Row } from "../../row.ts";
import { build, removeTemplate, TEN_COMMANDS } from "../../sandboxes/bench-build.ts";
import { sandboxId } from "../../sandboxes/creating.ts";
import { SecondServer } from "../../sandboxes/second-server.ts";

export const buildCached: Row = {
  name: "build-cached",
  what: "build of ten cached steps, until it is ready",
  beside: { peer: "one cold create of the same template", ratio: "cost" },
  async run(context) {
    const ten = { name: "bench-cached", from: { fromTemplate: "base" }, commands: TEN_COMMANDS };
    await using cold = await SecondServer.start(context);
    const again = () => timed(() => build(cold.context, ten));
    await again();
    const pairs = await interleave(context.heavyRounds, again, () => createdMs(cold.context, ten.name));
    return { pairs };
  },
};

export const buildCold: Row = {
  name: "build-cold",
  what: "build of ten uncached steps on a small image in a local layout",
  beside: { peer: "buildah bud --no-cache --layers of the same Dockerfile, on the same layout", ratio: "cost" },
  needs: "buildah",
  async run(context) {
    const peer = new Buildah(context);
    const ten = { name: "bench-cold", from: { fromImage: context.smallImage }, commands: TEN_COMMANDS, force: true };
    const ours = () => timed(() => build(context, ten));
    const pairs = await interleave(context.heavyRounds, ours, () => timed(() => peer.build(TEN_COMMANDS, true)));
    const plainMs = await timed(() => peer.build(TEN_COMMANDS, false));
    await removeTemplate(context, ten.name);
    return { pairs, notes: [`buildah without --layers, once: ${plainMs.toFixed(0)} ms`] };
  },
};

async function createdMs(context: Context, templateID: string): Promise<number> {
  let id = "";
  const ms = await timed(async () => {
    id = sandboxId(await context.call("POST", "/v2/sandboxes", { templateID }));
  });
  await context.call("DELETE", `/sandboxes/${id}`);
  return ms;
}
