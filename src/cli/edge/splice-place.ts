/** Where a process of the edge finds the program of its other thread, as the server has put it. */
import { dirname, join } from "node:path";

export const SPLICE_NAME = "splice";

export function spliceProgramBeside(edgeProgram: string): string {
  return join(dirname(dirname(edgeProgram)), SPLICE_NAME, `${SPLICE_NAME}.js`);
}
