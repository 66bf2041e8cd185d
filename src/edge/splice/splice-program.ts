/** The program of the thread that moves bytes. It is one of its own, so that the thread has nothing else in memory. */
import { runSpliceThread } from "./splice-thread.ts";

runSpliceThread();
