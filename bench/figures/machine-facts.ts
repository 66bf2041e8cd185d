/** What a reader must know of the machine to make sense of a figure. Nothing that names it. */
import { availableParallelism, loadavg, release, totalmem } from "node:os";

export interface MachineFacts {
  cores: number;
  arch: string;
  kernel: string;
  memoryMiB: number;
  /** Processes that ran or waited on average in the minute before: above zero, others were at work here. */
  loadBefore: number;
}

export function machineFacts(): MachineFacts {
  return {
    cores: availableParallelism(),
    arch: process.arch,
    kernel: release(),
    memoryMiB: Math.round(totalmem() / 1024 ** 2),
    loadBefore: Math.round((loadavg()[0] ?? 0) * 100) / 100,
  };
}
