/**
 * The system calls that a sandbox may make. An allow list, so that calls of later kernels stay closed until they are
 * reviewed.
 *
 * Left out on purpose, because each has been a way out of shared-kernel sandboxes or reaches beyond the sandbox:
 * mounting in both generations, namespaces (unshare, setns, clone flags, clone3), io_uring, Linux AIO, bpf, perf,
 * userfaultfd, kernel keyrings, modules, kexec, swap, quota, handles (open_by_handle_at), process_vm_*, personality
 * changes, clocks, acct, reboot, and every socket family but unix, IPv4, IPv6 and route netlink; socket pairs are unix
 * only. A few ioctl requests are left out as well (ioctl.ts).
 */
import { allExcept, FORBIDDEN_REQUESTS } from "./ioctl.ts";
import { ARCH_PRCTL_ABSENT, ARCH_PRCTL_ALLOWED, PRCTL_ABSENT, PRCTL_ALLOWED } from "./prctl.ts";

const ALLOWED = `
accept accept4 access alarm bind brk cachestat capget capset chdir chmod chown chown32 clock_getres clock_gettime
clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl
epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat
faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock
fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake futimesat
getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid
getpriority getrandom getresgid getresuid getrlimit get_robust_list getrusage getsid getsockname getsockopt get_thread_area
gettid gettimeofday getuid getxattr getxattrat inotify_add_watch inotify_init inotify_init1 inotify_rm_watch
ioprio_get ioprio_set kill lchown lgetxattr link linkat listen listxattr listxattrat llistxattr
lremovexattr lseek lsetxattr lstat map_shadow_stack membarrier memfd_create mincore mkdir mkdirat mknod mknodat mlock
mlock2 mlockall mmap mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap msgctl
msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep newfstatat open openat openat2 pause pidfd_open
pidfd_send_signal pipe pipe2 poll ppoll pread64 preadv preadv2 prlimit64
process_mrelease pselect6 ptrace pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg
remap_file_pages removexattr removexattrat rename renameat renameat2 restart_syscall riscv_hwprobe rmdir rseq
rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo
sched_getaffinity sched_getattr sched_getparam sched_get_priority_max sched_get_priority_min sched_getscheduler
sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl
semget semop semtimedop sendfile sendmmsg sendmsg sendto setfsgid setfsuid setgid setgroups setitimer setpgid setpriority
setregid setresgid setresuid setreuid setrlimit set_robust_list setsid set_thread_area set_tid_address setuid
setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 splice stat statfs statx
symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun
timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat
utime utimensat utimes vfork vmsplice wait4 waitid write writev chroot
`;

/**
 * Calls that fail with ENOSYS rather than EPERM, so that libraries fall back to allowed calls.
 *
 * Linux AIO (io_setup …): the kernel pins the rings of its contexts. A sandbox with many of them kept its guest from
 * responding for 40 s. No argument that a filter can compare bounds their number. InnoDB and nginx work without AIO
 * after ENOSYS; after EAGAIN, MySQL does not start.
 *
 * Landlock, mseal and pkey_* are protections that a program sets for itself and that a pause cannot keep: a program
 * must not rely on a protection that is gone after a resume.
 */
const ABSENT = `
clone3 io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents io_uring_setup io_uring_enter io_uring_register
landlock_create_ruleset landlock_add_rule landlock_restrict_self mseal pkey_alloc pkey_free pkey_mprotect
`;

/**
 * Advice that madvise takes, by the numbers of linux/mman.h: all but MADV_MERGEABLE (12). The operator alone decides
 * which sandboxes share memory, because timing reveals which pages are merged.
 */
const MADV_MERGEABLE = 12;
const ADVICE_AFTER = [13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 100, 101, 102, 103];

/** All clone flags that create a namespace. */
const CLONE_NEW_FLAGS = 0x7e020000;

const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
const NETLINK_ROUTE = 0;

/** A type's default, ICMP, TCP, UDP, ICMPv6. Others (SCTP, MPTCP …) would make the kernel load modules. */
const INTERNET_PROTOCOLS = [0, 1, 6, 17, 58];
const PROTOCOL_LAST = 58;

/**
 * Socket option levels with all options allowed: IP, TCP, UDP, IPv6, ICMPv6, raw, TLS in TCP, netlink. At level
 * SOL_SOCKET (1), options up to the last known one are allowed, except two groups. Receive buffer sizes: data queued in
 * netlink and ping sockets is charged to no cgroup. Filters: their code is charged to no cgroup either, and one sandbox
 * could reach the machine-wide limit.
 */
const OPTION_LEVELS = [0, 6, 17, 41, 58, 255, 270, 282];
const SOL_SOCKET = 1;
const SOCKET_OPTION_LAST = 96;
const [SO_RCVBUF, SO_ATTACH_FILTER, SO_RCVBUFFORCE] = [8, 26, 33];
const [SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF] = [50, 51, 52];
const RECEIVE_BUFFER = [SO_RCVBUF, SO_RCVBUFFORCE];
const SOCKET_FILTERS = [SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF];

/** Skips the call and reports success. */
const DONE = 0;
const EPERM = 1;
const EINVAL = 22;
const ENOSYS = 38;
const ENOPROTOOPT = 92;
const EPROTONOSUPPORT = 93;
const EAFNOSUPPORT = 97;
/** Plain Linux: the one personality that programs may set, besides querying the current one. */
const PER_LINUX = 0;
const PERSONALITY_QUERY = 0xffffffff;

interface Comparison {
  index: number;
  value: number;
  valueTwo?: number;
  op: "SCMP_CMP_EQ" | "SCMP_CMP_LT" | "SCMP_CMP_NE" | "SCMP_CMP_GT" | "SCMP_CMP_MASKED_EQ";
}

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}

function allow(names: string[], args: Comparison[] = []) {
  return { names, action: "SCMP_ACT_ALLOW", args };
}

function refuse(names: string[], errnoRet: number, args: Comparison[] = []) {
  return { names, action: "SCMP_ACT_ERRNO", errnoRet, args };
}

/** Closed families fail as on a kernel without them; programs then continue without (sudo tries the audit family). */
const CLOSED_FAMILIES = [0, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15].map((family) =>
  refuse(["socket"], EAFNOSUPPORT, [equals(0, family)]),
);

/** A receive buffer size is accepted and ignored: the kernel clamps it, so programs cannot rely on it. */
function socketOptions() {
  const ofSockets = (option: number) => [equals(1, SOL_SOCKET), equals(2, option)];
  const numbers = Array.from({ length: SOCKET_OPTION_LAST + 1 }, (_, number) => number);
  const open = numbers.filter((number) => !RECEIVE_BUFFER.includes(number) && !SOCKET_FILTERS.includes(number));
  return [
    ...OPTION_LEVELS.map((level) => allow(["setsockopt"], [equals(1, level)])),
    ...open.map((option) => allow(["setsockopt"], ofSockets(option))),
    ...RECEIVE_BUFFER.map((option) => refuse(["setsockopt"], DONE, ofSockets(option))),
    ...SOCKET_FILTERS.map((option) => refuse(["setsockopt"], EPERM, ofSockets(option))),
    refuse(["setsockopt"], ENOPROTOOPT, [
      equals(1, SOL_SOCKET),
      { index: 2, value: SOCKET_OPTION_LAST, op: "SCMP_CMP_GT" },
    ]),
  ];
}

function equals(index: number, value: number): Comparison {
  return { index, value, op: "SCMP_CMP_EQ" };
}

/** Allows only these options of a call whose first argument selects an option. */
function selfSettings(call: string, allowed: readonly number[], absent: readonly number[]) {
  return [
    ...allowed.map((option) => allow([call], [equals(0, option)])),
    ...absent.map((option) => refuse([call], EINVAL, [equals(0, option)])),
  ];
}

export const SECCOMP_PROFILE = {
  defaultAction: "SCMP_ACT_ERRNO",
  defaultErrnoRet: EPERM,
  // Only the machine's own architecture: 32-bit calls on an x86 machine would bypass the argument checks below.
  architectures: [process.arch === "arm64" ? "SCMP_ARCH_AARCH64" : "SCMP_ARCH_X86_64"],
  syscalls: [
    allow(words(ALLOWED)),
    allow(["clone"], [{ index: 0, value: CLONE_NEW_FLAGS, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" }]),
    allow(["madvise"], [{ index: 2, value: MADV_MERGEABLE, op: "SCMP_CMP_LT" }]),
    ...ADVICE_AFTER.map((advice) => allow(["madvise"], [equals(2, advice)])),
    refuse(["madvise"], EINVAL, [equals(2, MADV_MERGEABLE)]),
    ...allExcept(FORBIDDEN_REQUESTS).map(({ mask, value }) =>
      allow(["ioctl"], [{ index: 1, value: mask, valueTwo: value, op: "SCMP_CMP_MASKED_EQ" }]),
    ),
    allow(["socket", "socketpair"], [equals(0, AF_UNIX)]),
    // For a pair of another family, the kernel would load its module before it refuses.
    refuse(["socketpair"], EAFNOSUPPORT, [{ index: 0, value: AF_UNIX, op: "SCMP_CMP_NE" }]),
    ...[AF_INET, AF_INET6].flatMap((family) => [
      ...INTERNET_PROTOCOLS.map((protocol) => allow(["socket"], [equals(0, family), equals(2, protocol)])),
      refuse(["socket"], EPROTONOSUPPORT, [equals(0, family), { index: 2, value: PROTOCOL_LAST, op: "SCMP_CMP_GT" }]),
    ]),
    allow(["socket"], [equals(0, AF_NETLINK), equals(2, NETLINK_ROUTE)]),
    ...socketOptions(),
    allow(["personality"], [equals(0, PER_LINUX)]),
    allow(["personality"], [equals(0, PERSONALITY_QUERY)]),
    ...selfSettings("prctl", PRCTL_ALLOWED, PRCTL_ABSENT),
    ...(process.arch === "x64" ? selfSettings("arch_prctl", ARCH_PRCTL_ALLOWED, ARCH_PRCTL_ABSENT) : []),
    ...CLOSED_FAMILIES,
    refuse(["socket"], EAFNOSUPPORT, [{ index: 0, value: AF_NETLINK, op: "SCMP_CMP_GT" }]),
    refuse(["socket"], EPROTONOSUPPORT, [equals(0, AF_NETLINK), { index: 2, value: NETLINK_ROUTE, op: "SCMP_CMP_NE" }]),
    refuse(words(ABSENT), ENOSYS),
  ],
};
