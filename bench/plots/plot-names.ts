/** The plots that `--plot` names. `growth` draws those over the number of running sandboxes. */
export const PLOT_NAMES = ["burst", "pause", "build", "growth", "interpreters"] as const;
export type PlotName = (typeof PLOT_NAMES)[number];
