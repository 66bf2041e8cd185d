/** Facts about the machine that a reader needs to interpret a figure. Nothing identifies the machine. */
import { availableParallelism, loadavg, release, totalmem } from "node:os";

export interface MachineFacts {
  cores: number;
  arch: string;
  kernel: string;
  memoryMiB: number;
  /** Average number of running or waiting processes in the minute before. Above zero: other programs were active. */
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
