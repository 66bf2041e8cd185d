/** What programs that the server runs use of the processors, when steps are recorded. */
import { isRecording, noteUse } from "../../work/steps.ts";

/** One that has ended, with all of its children that it has waited for. */
export function noteProcess(child: Pick<Bun.Subprocess, "resourceUsage">): void {
  if (!isRecording()) return;
  const microseconds = child.resourceUsage()?.cpuTime.total;
  if (microseconds !== undefined) noteUse("helpers", Number(microseconds) / 1000);
}
