/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */
import { availableParallelism } from "node:os";
import { scaled } from "../work/time-factor.ts";

export const COMMAND_DEFAULT_MS = scaled(30_000);
export const COMMAND_OUTPUT_MAX_BYTES = 1024 * 1024;
export const GUEST_READY_MS = scaled(30_000);
/** A create that failed for no reason that says more is made once more, if the first try was over within so long. */
export const TRIES_MAX = 2;
export const SECOND_TRY_WITHIN_MS = scaled(25_000);
/** So long nothing has changed in the run folder of a server that is taken to be gone for good. */
export const GONE_SERVER_AFTER_MS = scaled(60_000);
/** How long crun may take to make or start a sandbox, and to remove one. */
export const CRUN_START_MS = scaled(20_000);
/** How often it is seen whether what crun starts is still there. */
export const CRUN_START_LOOK_EVERY_MS = 50;
export const CRUN_REMOVE_MS = scaled(20_000);
/** The same for runsc, and for what it does to one that runs; and how much of what it says is kept. */
export const RUNSC_MAKE_MS = scaled(30_000);
export const RUNSC_SIGNAL_MS = scaled(20_000);
export const RUNSC_SAID_MAX_CHARS = 4_000;
/** How long a guest may take to hang up before it is written down, and how often that is tried where others call it. */
export const LAST_CALL_MS = scaled(10_000);
/** More than one: as many of its connections may have been cut in the same moment. */
export const LAST_CALLS_AT_ONCE = 8;
export const LAST_CALL_ROUNDS = 2;
export const SILENCE_TRIES_MAX = 6;
export const SILENCE_RETRY_MS = 10;
/** When to come again after a wait ran out on this machine. */
export const OVERLOAD_RETRY_AFTER_SECONDS = 5;
export const GUEST_CALL_MS = scaled(10_000);
/** Questions under way, of all sandboxes and of one; the oldest gives way. */
export const DNS_QUERIES_MAX = 1024;
export const DNS_QUERIES_PER_SANDBOX_MAX = 64;
export const DNS_CONNECTIONS_MAX = 512;
export const DNS_CONNECTIONS_PER_SANDBOX_MAX = 8;
export const DNS_ANSWER_MS = 5_000;
/** Of a connection with questions: how long, how many, and of how many bytes each; an answer has as many as it can. */
export const DNS_CONNECTION_MS = 10_000;
export const DNS_MESSAGES_PER_CONNECTION_MAX = 256;
export const DNS_QUERY_MAX_BYTES = 4096;
export const DNS_ANSWER_MAX_BYTES = 65_535;
/** Connections that the relay carries: of all sandboxes, of one, and of one that are not connected further yet. */
export const RELAY_CONNECTIONS_MAX = 8192;
export const RELAY_CONNECTIONS_PER_SANDBOX_MAX = 1024;
export const RELAY_WAITING_PER_SANDBOX_MAX = 256;
/** New ones of a sandbox: so many at once, and each second for good; a further one waits for its turn. */
export const RELAY_NEW_BURST_MAX = 1000;
export const RELAY_NEW_PER_SECOND = 1000;
/** What a connection says of whom it is for is no longer, and said within this. */
export const RELAY_HELLO_MAX_BYTES = 64 * 1024;
export const RELAY_HELLO_MS = 10_000;
/** From a name to an open connection, however many addresses are tried; and each of them. */
export const RELAY_DIAL_MS = 30_000;
export const RELAY_DIAL_ADDRESS_MS = 10_000;
export const RELAY_DIAL_ADDRESSES_MAX = 4;
/** A connection over which nothing comes for so long is over; the other end is asked for a sign of life before. */
export const RELAY_IDLE_MS = 2 * 3_600_000;
export const RELAY_KEEPALIVE_MS = 60_000;
/** Of a sandbox that has used up its share of the memory, one that nothing was taken from for so long is over. */
export const RELAY_STALLED_MS = 60_000;
export const RELAY_LOOK_EVERY_MS = 10_000;
/** Whoever was refused has so long to read why. */
export const RELAY_LINGER_MS = 30_000;
/**
 * Bytes that nobody took yet: sandboxes share them evenly, but each has the second. One more piece of a connection,
 * as the kernel hands it over, may come on top.
 */
export const RELAY_HELD_MAX_BYTES = 256 * 1024 * 1024;
export const RELAY_HELD_PER_SANDBOX_MIN_BYTES = 1024 * 1024;
/** What the process may have of memory, and the log of what it complains about. */
export const RELAY_DATA_MAX_BYTES = 2 * 1024 ** 3;
export const RELAY_COMPLAINT_MAX_CHARS = 2000;
/** A question for a name: how long each try waits, how many there are; at once of one sandbox. */
export const RELAY_NAME_MS = 2_500;
export const RELAY_NAME_TRIES_MAX = 2;
export const RELAY_NAMES_ASKED_PER_SANDBOX_MAX = 32;
/** Answers that are kept for one sandbox, no longer than they say, nor than this. */
export const RELAY_NAMES_KEPT_MAX = 64;
export const RELAY_NAME_KEPT_MAX_MS = 60_000;
/** Two lists of 1 000 ranges and one of as many names, with some room. */
export const RELAY_MESSAGE_MAX_BYTES = 2 * 1024 * 1024;
export const RELAY_START_MS = scaled(20_000);
export const RELAY_ANSWER_LOOK_MS = scaled(1_000);
export const RELAY_ANSWER_LOOKS_MAX = 10;
/** From a change of the rules to the word that it holds, also when the relay has to be started again for it. */
export const RELAY_ACKNOWLEDGED_MS = scaled(30_000);
/** Pauses before it is started again double from the first to the second. */
export const RELAY_RESTART_MIN_MS = 20;
export const RELAY_RESTART_MAX_MS = 5_000;
export const LIVENESS_CHECK_MS = 500;
export const FREEZE_MS = scaled(10_000);
export const CHECKPOINT_MS = scaled(300_000);
export const RESTORE_MS = scaled(300_000);
/** A restore in which nothing moves for so long never will; how often it is looked at. */
export const RESTORE_STALLED_MS = scaled(5_000);
export const STALL_CHECK_MS = 500;
/** On the whole machine: each keeps a processor and the disk busy; a restore waits for the kernel half of the time. */
export const CHECKPOINTS_AT_ONCE_MAX = Math.max(2, availableParallelism());
export const RESTORES_AT_ONCE_MAX = Math.max(4, 2 * availableParallelism());
/** With cgroup v2: so many times its memory and its processes a sandbox may have until it is restored. */
export const RESTORE_ROOM = 2;
/** A memory image is at most so many times the sandbox's memory: processes that share some are written one by one. */
export const IMAGE_PER_MEMORY_MAX = 16;
export const IMAGE_WATCH_MS = 250;
/** How long CRIU may take to write a sandbox: so much for any, and more for each byte there is. */
export const IMAGE_BASE_MS = scaled(30_000);
export const IMAGE_BYTES_PER_SECOND_MIN = 16 * 1024 * 1024;
/**
 * What waits in a sandbox that is to be written, and deleted files that it holds open: CRIU takes and restores them one
 * by one. And how long a process may be in vfork by then, and how often it is looked at.
 */
export const QUEUED_SIGNALS_MAX = 10_000;
export const DELETED_FILES_MAX = 2_000;
export const VFORK_WAIT_MS = scaled(3_000);
export const VFORK_LOOK_EVERY_MS = 20;
/** Processes and files that are looked at before others get their turn on the processor. */
export const LOOKED_AT_TURN = 256;
/** And from when it is told to stop until it is made to. */
export const IMAGE_STOP_MS = scaled(5_000);
/** A deleted file that a process still holds open is kept in the memory image up to this size. */
export const DELETED_FILE_MAX_BYTES = 1024 ** 3;
/** A file of a memory image up to this size is made durable together with the others. */
export const PACKED_FILE_MAX_BYTES = 128 * 1024;
/** Of a file of a memory image, digested in one step. */
export const DIGEST_SLICE_BYTES = 4 * 1024 * 1024;
/** Of a file of a memory image, overwritten with zeros in one step. */
export const WIPED_AT_ONCE_MAX_BYTES = 1024 * 1024;
/** How much of the end of a tool's log is looked at. One that gets twice as long meanwhile is begun anew. */
export const TOOL_LOG_MAX_BYTES = 4 * 1024 * 1024;

/**
 * What the host takes from one sandbox's journal: at once, and each second for good. Above, it hangs up for a while.
 */
export const JOURNAL_BURST_MAX_BYTES = 1024 * 1024;
export const JOURNAL_BYTES_PER_SECOND = 32 * 1024;
/** How long a guest is kept waiting for somebody to say that its lines were taken. */
export const JOURNAL_ANSWER_MS = scaled(10_000);
/** Pauses before the host listens again double from the first to the second. */
export const JOURNAL_RETRY_MIN_MS = 100;
export const JOURNAL_RETRY_MAX_MS = 5_000;

/** Sandboxes measured before others get their turn on the processor. */
export const METRIC_TURN = 16;
export const MEASURE_DISK_MS = scaled(1_000);

/** How often the networks that the machine is on are looked at. */
export const ON_LINK_REFRESH_MS = 5_000;
/** How long nft may take: a table with the rules of hundreds of sandboxes, with long lists, takes half a minute. */
export const NFT_MS = scaled(180_000);
/** Changes that go to nft together. */
export const NFT_BATCH_MAX_CHARS = 4 * 1024 * 1024;
/** Of one sandbox to the outside, at once: the kernel's table of them is shared by the whole machine. */
export const CONNECTIONS_PER_SANDBOX_MAX = 8192;
/**
 * How often the kernel sends to a peer that does not answer, for a program inside that has closed its connection or is
 * gone: for some 6 seconds.
 */
export const ORPHAN_RETRIES = 4;
/** Of the machine's memory, this part is not for sandboxes, and at least so much. */
export const MACHINE_MEMORY_PART = 1 / 16;
export const MACHINE_MEMORY_MIN_BYTES = 512 * 1024 * 1024;
/**
 * Of the machine's memory, what may wait in TCP and UDP sockets of all sandboxes together, where cgroups count it
 * apart: the kernel begins to hold back the whole machine at a sixteenth.
 */
export const SOCKET_MEMORY_PART = 3 / 64;
/** Of one process of the edge; a small machine gives it this part of its memory. */
export const EDGE_PROCESS_MEMORY_MAX_BYTES = 1024 ** 3;
export const EDGE_PROCESS_MEMORY_PART = 0.25;
/**
 * What may wait in the netlink and ping sockets of a sandbox, and unsent in its UDP sockets, in all: it is in nobody's
 * memory. And how many of the first two it may have. Those of a sandbox that has no more than a few are not looked at;
 * of UDP sockets, each of which holds 64 KiB at most, these are more.
 */
export const QUEUED_PER_SANDBOX_MAX_BYTES = 32 * 1024 * 1024;
export const QUEUING_SOCKETS_PER_SANDBOX_MAX = 4096;
export const QUEUE_SOCKETS_FEW = 4;
export const QUEUE_UDP_SOCKETS_FEW = 128;
/** Of a list of sockets: as long as one of all those that a sandbox may have. */
export const QUEUE_LIST_MAX_BYTES = 1024 * 1024;
/**
 * All sandboxes are looked at after the longest time; after the shortest one if the kernel's memory has grown by so
 * much, which is seen at every tick.
 */
export const QUEUE_LOOK_MAX_MS = 10_000;
export const QUEUE_LOOK_GAP_MS = 500;
export const QUEUE_TICK_MS = 250;
export const QUEUE_GROWTH_BYTES = 64 * 1024 * 1024;
/** So many sandboxes before others get their turn. */
export const QUEUE_LOOK_TURN = 8;
/** Of files in memory, in a sandbox of much memory. */
export const SHM_MAX_MB = 256;
export const RUN_MAX_MB = 64;
/** Of one sandbox: the machine has a million in all, and what waits in one is no sandbox's memory (64 KiB each way). */
export const TERMINALS_PER_SANDBOX_MAX = 256;
/** A sandbox's disk has room for one file in each of these pieces; a small one for as many as mke2fs thinks right. */
export const DISK_BYTES_PER_FILE = 16 * 1024;
export const DISK_SMALL_MB = 512;
/** Of the kernel's table of connections: of one sandbox that has ended at most so many. */
export const FLOWS_FORGOTTEN_MAX = 65_536;
/** Where there are more, a start does not look through all of them for those of its slots. */
export const FLOWS_SEEN_MAX = 8192;
/** The removal of a checkpoint waits so long for restores of it, which take less, and looks so often. */
export const CHECKPOINT_HELD_MS = scaled(60_000);
export const CHECKPOINT_HELD_LOOK_MS = 50;
/** Below this much free space no new sandbox is made: the running ones need it. */
export const DISK_FREE_MIN_BYTES = 1024 ** 3;
/** How many finished builds an image can be stacked from, each on the one before, besides the built-in one below. */
export const IMAGE_LEVELS_MAX = 20;
/** To copy the files of a finished build, to make them durable, and to remove those of an image. */
export const IMAGE_COPY_MS = scaled(900_000);
export const IMAGE_SYNC_MS = scaled(300_000);
export const IMAGE_REMOVE_MS = scaled(300_000);
/** Of the names of all files of an image that have several. */
export const LINKED_NAMES_MAX_BYTES = 64 * 1024 * 1024;
/** So many of them are looked at before others get their turn on the processor. */
export const LINKED_NAMES_TURN = 64;
/** Changed files that the thread that mounts looks at before others get their turn. */
export const IMAGE_INDEX_TURN = 512;
/** While files are copied the free space is looked at so often. */
export const IMAGE_ROOM_CHECK_MS = 500;
/** An image that was just made or used stays for so long, until whoever keeps the books has written that down. */
export const IMAGE_FRESH_MS = 60_000;
/**
 * Guests and images of the cache folder that no server needs are looked for so often, and stay for so long after one
 * was last chosen: by then the server that chose it has marked it. The mark of a server whose data folder cannot be
 * found counts for so long.
 */
export const CACHE_COLLECTED_EVERY_MS = 3_600_000;
export const CACHE_KEPT_MS = 24 * 3_600_000;
export const CACHE_MARK_KEPT_MS = 30 * 24 * 3_600_000;
export const GUEST_REMOVE_MS = scaled(60_000);
/** A pool in a file has at least this size; when it is let go, its loop device is waited for so long. */
export const POOL_MIN_BYTES = 4 * 1024 ** 3;
export const POOL_RELEASE_MS = scaled(20_000);
export const POOL_LOOK_EVERY_MS = 20;
/**
 * What was told to end is waited for so long, however many trees it is in: the memory of a large sandbox takes a while
 * to be given back, on a machine that is busy. What then runs on is looked at again and again, with pauses that double
 * from the second to the third, so many at once; a log line names so many processes of it.
 */
export const CGROUP_REMOVE_MS = scaled(20_000);
export const UNENDED_RETRY_MIN_MS = 500;
export const UNENDED_RETRY_MAX_MS = 30_000;
export const UNENDED_AT_ONCE = 8;
export const UNENDED_SHOWN_MAX = 20;
/** How long the kernel may work to take the memory of files from a cgroup that is about to go. */
export const MEMORY_EMPTY_MS = scaled(2_000);
/** What is left of the sandboxes of a server that was killed is removed, so many at once. */
export const REAPS_AT_ONCE = 8;
/** What was told to end is gone within a few milliseconds; the pauses grow from the first to the second. */
export const CGROUP_REMOVE_RETRY_MIN_MS = 1;
export const CGROUP_REMOVE_RETRY_MAX_MS = 20;
/** All trees are looked through at least so often for what runs on in a cgroup that is ended. */
export const CGROUP_LOOK_EVERY_MS = 100;
/**
 * A guest that starts is looked for after the first, with pauses from the second to the third; whether its sandbox is
 * still there is looked at less often. Each question is waited for longer.
 */
export const [GUEST_LOOK_FIRST_MS, GUEST_LOOK_MIN_MS, GUEST_LOOK_MAX_MS, GUEST_ALIVE_EVERY_MS] = [8, 3, 100, 200];
export const [GUEST_PING_MIN_MS, GUEST_PING_MAX_MS] = [scaled(250), scaled(2_000)];
/** An answer of a guest is a few bytes; a sandbox that sends more is not our guest any more. */
export const GUEST_ANSWER_MAX_BYTES = 4096;
/** A message of a guest's stream carries a piece of output of 32 KiB, in base64. */
export const GUEST_MESSAGE_MAX_BYTES = 256 * 1024;
/**
 * What is read of one command's stream: at once, and each second for good. Each message counts so much besides its
 * length, because it takes the server's time, however short it is.
 */
export const GUEST_STREAM_BURST_BYTES = 16 * 1024 * 1024;
export const GUEST_STREAM_BYTES_PER_SECOND = 8 * 1024 * 1024;
export const GUEST_MESSAGE_OVERHEAD_BYTES = 1024;
/** A guest says at least so often that a command runs on, and is given up when it says nothing for so long. */
export const GUEST_KEEPALIVE_SECONDS = 10;
export const GUEST_SILENT_MAX_MS = scaled(90_000);
/** Of a guest: threads, and children of its keeper. A sandbox could have made more appear. */
export const GUEST_PRIORITY_TURNS_MAX = 64;
/** Shorter than any pause before a follower listens again. */
export const JOURNAL_LAST_LINES_MS = 50;
/** Another server may take a free loop device between two calls. */
export const LOOP_ATTEMPTS_MAX = 64;
/** crun may have been killed the first time. */
export const CRUN_REMOVE_TRIES_MAX = 2;
export const CRIU_SAID_MAX_CHARS = 300;
/** What a killed CRIU had its hand in ends within this. */
export const CRIU_AFTERMATH_MS = 50;

/** What a build may take, unless the operator says otherwise. */
export const BUILD_MAX_MS = 3_600_000;
export const BUILD_LOG_MAX_BYTES = 10 * 1024 * 1024;
export const BUILD_READY_MAX_MS = 600_000;
/** A start command without a command that says when it is ready is given so long. */
export const BUILD_READY_DEFAULT_MS = 20_000;
/** Pauses before a ready command is asked again double from the first to the second. */
export const BUILD_READY_RETRY_MIN_MS = 50;
export const BUILD_READY_RETRY_MAX_MS = 2_000;
/** The kernel takes no longer variable; and all of them have to fit beside a command's arguments. */
export const BUILD_VALUE_MAX_BYTES = 128 * 1024;
export const BUILD_VARIABLES_NESTED_MAX = 16;
export const BUILD_VARIABLES_MAX_BYTES = 1024 * 1024;
/** Of a build's log: a longer line is told as several; each counts so much besides its text. */
export const BUILD_LOG_LINE_MAX_CHARS = 4096;
export const BUILD_LOG_ENTRY_OVERHEAD_BYTES = 32;
/** What a build says is told after so long, or when it is so much. */
export const BUILD_LOG_GATHER_MS = 100;
export const BUILD_LOG_GATHER_BYTES = 64 * 1024;
/** What is read of a build's commands, also when it is not kept any more. */
export const BUILD_OUTPUT_BURST_BYTES = 16 * 1024 * 1024;
export const BUILD_OUTPUT_BYTES_PER_SECOND = 4 * 1024 * 1024;
/** Of the output of a step that failed, and of its command, in the message about it. */
export const BUILD_TAIL_MAX_CHARS = 4096;
/** Of a line that the program says which makes root filesystems of templates. */
export const IMAGE_PROGRAM_LINE_MAX_CHARS = 4096;
export const BUILD_COMMAND_SHOWN_CHARS = 1024;
/** A sandbox of a build that the machine has no room for is tried so often, with pauses that double from this one. */
export const BUILD_SANDBOX_TRIES_MAX = 6;
export const BUILD_SANDBOX_RETRY_MS = 1_000;
export const HOME_MAX_CHARS = 1024;
/** A passwd file in which a build looks for homes. */
export const PASSWD_MAX_BYTES = 1024 * 1024;
/** Layers that the next builds may begin with: in all, and how long one is kept that none began with. */
export const LAYERS_MAX_BYTES = 20 * 1024 ** 3;
export const LAYERS_KEPT_MS = 7 * 24 * 3_600_000;
/** What is kept of the end of what a program of the guest's own says. */
export const GUEST_PROGRAM_SAID_MAX_CHARS = 16 * 1024;

/** A volume's filesystem is looked through before it is mounted; a clean one takes a moment, a broken one minutes. */
export const VOLUME_CHECK_MS = scaled(600_000);
export const VOLUME_MAKE_MS = scaled(60_000);
/** How long what was written to a volume may take to reach the disk. */
export const VOLUME_SYNC_MS = scaled(300_000);
/** The machine's own mount of a volume goes when nobody has needed it for so long. */
export const VOLUME_IDLE_MS = 30_000;
/** A volume whose last user is just going is waited for in steps. */
export const VOLUME_MOUNT_TRIES_MAX = 40;
export const VOLUME_MOUNT_RETRY_MS = 50;
/** Processes that work on the content of volumes: so many at once; one that has nothing to do ends after a while. */
export const CONTENT_PROCESSES_MAX = 64;
export const CONTENT_IDLE_MS = 20_000;
export const CONTENT_START_MS = scaled(10_000);
export const CONTENT_END_MS = scaled(1_000);
/** Calls to one of them at the same time; a further one is told to come again. */
export const CONTENT_CALLS_MAX = 32;
/** How long one may think about a call, but for the bytes of a file, of which each piece may take so long. */
export const CONTENT_CALL_MS = scaled(120_000);
/** An answer about entries has at most so many of them, and is no longer: the server has it in memory as a whole. */
export const CONTENT_LIST_MAX_ENTRIES = 20_000;
export const CONTENT_LIST_MAX_BYTES = 16 * 1024 * 1024;
/** Entries that are looked at together. */
export const CONTENT_LIST_BATCH = 64;
/** Of the names in a folder, read at once. */
export const CONTENT_NAMES_BYTES = 64 * 1024;
/** A folder is emptied in steps of so many entries, and all of it within the first half of a call's time. */
export const CONTENT_REMOVE_BATCH = 1_000;
export const CONTENT_REMOVE_MS = scaled(60_000);
/** Of a file, read at once. */
export const CONTENT_PIECE_BYTES = 256 * 1024;
/** An upload that cannot be taken is read on for so long: a client that is cut off in the middle hears no reason. */
export const CONTENT_REFUSED_MAX_BYTES = 64 * 1024 * 1024;
/** Of a path in a message. */
export const CONTENT_SHOWN_PATH_MAX_CHARS = 256;
/** Credentials of a cloud are exchanged for a registry's within this. */
export const LOGIN_MS = scaled(10_000);
export const LOGIN_ANSWER_MAX_BYTES = 64 * 1024;
/** A key of 4096 bits has 3300. The server's thread signs with it, and the time grows with the third power of it. */
export const LOGIN_KEY_MAX_CHARS = 4096;
/** The sandbox in which an image is fetched. Its disk holds the layers as they come, and what is unpacked of them. */
export const FETCH_CPU_COUNT = 2;
export const FETCH_MEMORY_MB = 1024;
export const FETCH_DISK_MB = 24 * 1024;
export const PROVISION_DISK_MB = 1024;
/** An image as it comes over the network, in all, and how many layers it may have. */
export const FETCH_MAX_BYTES = 8 * 1024 ** 3;
export const FETCH_LAYERS_MAX = 200;
/** Of what describes an image: what its name leads to, and its configuration. */
export const FETCH_DOCUMENT_MAX_BYTES = 4 * 1024 * 1024;
/** Of the certificates that this machine trusts. */
export const FETCH_AUTHORITIES_MAX_BYTES = 8 * 1024 * 1024;
/** A registry that has not said what a name leads to by then does not answer. */
export const FETCH_QUESTION_MS = scaled(60_000);
/** Nothing comes of a blob. */
export const FETCH_STALLED_MS = scaled(60_000);
export const FETCH_COPY_MS = scaled(30 * 60_000);
export const FETCH_UNPACK_MS = scaled(30 * 60_000);
/** So much of what a tool says last is kept for the reason of a failure. */
export const FETCH_SAID_MAX_CHARS = 4_096;
export const FETCH_REASON_MAX_CHARS = 600;
/** Blobs of registries that are kept, all together, and how long after their last use. */
export const CACHED_BLOBS_MAX_BYTES = 20 * 1024 ** 3;
export const CACHED_BLOBS_KEPT_MS = 30 * 24 * 3_600_000;
