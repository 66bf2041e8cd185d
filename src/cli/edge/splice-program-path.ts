/** Where an edge process finds the program of its splice thread, which the server bundled. */
import { dirname, join } from "node:path";

export const SPLICE_NAME = "splice";

export function spliceProgramBeside(edgeProgram: string): string {
  return join(dirname(dirname(edgeProgram)), SPLICE_NAME, `${SPLICE_NAME}.js`);
}
