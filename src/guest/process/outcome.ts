/** The end of a process, in texts that clients compare: a signal gives exit code -1, never 128 + n. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ProcessEvent_EndEventSchema } from "../../contract/runtime/wire/process/process_pb.ts";

export type EndEvent = MessageInitShape<typeof ProcessEvent_EndEventSchema>;

const SIGNAL_TEXTS: Record<string, string> = {
  SIGHUP: "hangup",
  SIGINT: "interrupt",
  SIGQUIT: "quit",
  SIGILL: "illegal instruction",
  SIGTRAP: "trace/breakpoint trap",
  SIGABRT: "aborted",
  SIGBUS: "bus error",
  SIGFPE: "floating point exception",
  SIGKILL: "killed",
  SIGUSR1: "user defined signal 1",
  SIGSEGV: "segmentation fault",
  SIGUSR2: "user defined signal 2",
  SIGPIPE: "broken pipe",
  SIGALRM: "alarm clock",
  SIGTERM: "terminated",
  SIGSTKFLT: "stack fault",
  SIGXCPU: "CPU time limit exceeded",
  SIGXFSZ: "file size limit exceeded",
  SIGVTALRM: "virtual timer expired",
  SIGPROF: "profiling timer expired",
  SIGIO: "I/O possible",
  SIGPWR: "power failure",
  SIGSYS: "bad system call",
};

export function endEvent(exitCode: number | null, signal: string | number | null): EndEvent {
  if (signal !== null) {
    const status = `signal: ${SIGNAL_TEXTS[signal] ?? `signal ${signal}`}`;
    return { exitCode: -1, exited: false, status, error: status };
  }
  const code = exitCode ?? -1;
  const status = `exit status ${code}`;
  return code === 0 ? { exitCode: 0, exited: true, status } : { exitCode: code, exited: true, status, error: status };
}
