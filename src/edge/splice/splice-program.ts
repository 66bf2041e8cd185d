/** The program of the splice thread. It is separate, so that the thread loads nothing else into memory. */
import { runSpliceThread } from "./splice-thread.ts";

runSpliceThread();
