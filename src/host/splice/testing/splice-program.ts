/** The thread's program, where it is that of nothing else. For tests. */
import { runSpliceThread } from "../splice-thread.ts";

runSpliceThread();
