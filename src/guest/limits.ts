/**
 * Every bound of this room, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in a name.
 */

/** Of SANDBOX_PIDS_MAX, one ordinary user's processes never take the last few: root needs them to end a fork bomb. */
export const SANDBOX_PIDS_FOR_ROOT = 256;

export const GUEST_RPC_MESSAGE_MAX_BYTES = 64 * 1024 * 1024;
/** Outside of its strings a JSON message takes many times its size in memory once it is parsed. */
export const GUEST_JSON_STRUCTURE_MAX_BYTES = 4 * 1024 * 1024;
export const OUTPUT_CHUNK_MAX_BYTES = 32 * 1024;
/** The output of a process flows when it was read so often without a wait. */
export const OUTPUT_FLOWS_AFTER_READS = 16;
/** One that has flowed before does so again after so many. */
export const OUTPUT_FLOWS_AGAIN_AFTER_READS = 4;
/** With less in it, the pipe of such a process is left to fill for a moment. */
export const OUTPUT_READ_BYTES = 64 * 1024;
export const OUTPUT_GATHER_MS = 1;
/** What fits into that pipe, and how many processes have one: a quarter of what a user may have in pipes. */
export const PIPE_LARGE_BYTES = 1024 * 1024;
export const PIPES_LARGE_MAX = 16;
/** So much is read at once. Pieces of output that wait for a listener are sent together up to this size. */
export const OUTPUT_TOGETHER_MAX_BYTES = 1024 * 1024;
/** The memory that longer ones are written to is kept for the next. */
export const ENVELOPES_KEPT_MIN_BYTES = 32 * 1024;
/** It is let go when none was written for so long: a stream may be silent for hours. */
export const ENVELOPES_KEPT_MS = 500;
export const TERMINAL_CHUNK_MAX_BYTES = 16 * 1024;
export const SUBSCRIBER_BUFFER_MAX_BYTES = 512 * 1024;
/** Counted for each queued chunk besides its bytes, so that a flood of tiny chunks is bounded, too. */
export const SUBSCRIBER_CHUNK_OVERHEAD_BYTES = 128;
/**
 * A source that cannot be stopped in time may overfill a listener's buffer by this much before the listener is dropped.
 */
export const SUBSCRIBER_OVERFILL_MAX_BYTES = 2 * 1024 * 1024;
export const SUBSCRIBER_STALLED_MS = 30_000;
export const SUBSCRIBERS_PER_PROCESS_MAX = 128;
/** Of processes that go on while the guest is renewed; a process of its own reads each. */
export const OUTPUTS_HANDED_OVER_MAX = 256;
/** From the answer to a request to be renewed until the guest ends: the answer is on its way by then. */
export const RENEWED_AFTER_MS = 20;
export const INPUT_SLICE_MAX_BYTES = 64 * 1024;
export const INPUT_WAITING_MAX_BYTES = 64 * 1024 * 1024;
export const EXIT_RETENTION_MS = 30_000;
export const EXITS_RETAINED_MAX = 1024;
/**
 * After a signalled process is gone while a descendant holds its pipes: how long output is still read, and again as
 * long while some waits in the pipes,
 */
export const OUTPUT_DRAIN_AFTER_SIGNAL_MS = 250;
/** up to this much. A pipe holds less, so more than this is a descendant's. */
export const OUTPUT_AFTER_SIGNAL_MAX_BYTES = 4 * 1024 * 1024;
export const KEEPALIVE_DEFAULT_SECONDS = 90;
export const KEEPALIVE_MAX_SECONDS = 86_400;
export const LIST_ENTRIES_MAX = 200_000;
export const LIST_STAT_PARALLEL = 32;
export const MULTIPART_HEADER_MAX_BYTES = 64 * 1024;
export const MULTIPART_BOUNDARY_MAX_BYTES = 70;
export const MULTIPART_PARTS_MAX = 10_000;
export const FILE_READ_CHUNK_BYTES = 256 * 1024;
/** Of one upload, while others of its bytes are being written; above it, the client is held back. */
export const UPLOAD_WAITING_MAX_BYTES = 512 * 1024;
/** Counted for each piece that waits besides its bytes: a body of many parts may consist of tiny ones. */
export const UPLOAD_PIECE_OVERHEAD_BYTES = 128;
/** Bytes carried between two collections of the guest's garbage. */
export const GARBAGE_MAX_BYTES = 16 * 1024 * 1024;
/** What requests leave is collected after so long. */
export const GARBAGE_WAITS_MS = 30_000;
/** Counted for each message of a stream besides its bytes: what making it leaves behind, whatever its size. */
export const GARBAGE_PER_MESSAGE_BYTES = 8 * 1024;
/** A smaller piece is not worth the work of freeing it by hand. */
export const DISCARDED_PIECE_MIN_BYTES = 16 * 1024;
/** What a sandbox shows of its memory is measured at most this often. */
export const MEMINFO_EVERY_MS = 1_000;
export const CONTROL_BODY_MAX_BYTES = 4 * 1024 * 1024;
export const FORWARDERS_MAX = 256;
export const FORWARD_CONNECTIONS_MAX = 1024;
export const FORWARD_PROBE_MS = 1_000;
export const FORWARD_IDLE_MS = 60_000;
/** Each has an inotify instance of its own. The first bounds streams and polling watchers together. */
export const WATCHERS_MAX = 256;
export const POLLING_WATCHERS_MAX = 128;
export const WATCHED_DIRECTORIES_MAX = 65_536;
/** While a new directory is looked into, each level above it is held open. */
export const WATCH_DEPTH_MAX = 256;
/** Found in a directory that has appeared. As many events fill the buffer of a watcher. */
export const WATCH_DISCOVERIES_MAX = 65_536;
/** Events that a client has not taken yet: of one watcher, and of all together. */
export const WATCHER_BUFFER_MAX_BYTES = 16 * 1024 * 1024;
export const WATCHERS_BUFFERS_MAX_BYTES = 64 * 1024 * 1024;
/** Counted for each event, and for its entry, besides their texts. */
export const WATCHER_EVENT_OVERHEAD_BYTES = 256;
export const WATCHER_ENTRY_OVERHEAD_BYTES = 1024;
/** How long `GetWatcherEvents` waits for events that the kernel has queued and the daemon has not read yet. */
export const WATCHER_CATCH_UP_MS = 2_000;
/** Events on their way from a watcher's buffer to its stream. */
export const WATCHER_TAKE_EVENTS = 64;
/** What a name of an extended attribute leaves for a key behind `user.e2b.`. */
export const FILE_METADATA_KEY_MAX_BYTES = 246;
/** All keys with their prefixes and all values of one upload. */
export const FILE_METADATA_MAX_BYTES = 4096;
/** Programs may have put more at a file than an upload can; what is beyond this is not shown. */
export const ENTRY_METADATA_MAX_BYTES = 64 * 1024;
/** The kernel's own bounds: of a path without its closing zero byte, and of each name in it. */
export const PATH_MAX_BYTES = 4095;
export const NAME_MAX_BYTES = 255;
/** What is read of a file that could not be executed: the kernel looks at as much for an interpreter. */
export const PROGRAM_HEAD_BYTES = 256;
/** The system's text for an error, such as "No such file or directory". */
export const SYSTEM_REASON_MAX_CHARS = 256;
/** Of a text that a client sent, so much is repeated in a message about it. */
export const QUOTED_MAX_CHARS = 100;
/** Of a whole message, whoever wrote it. */
export const MESSAGE_MAX_CHARS = 2_000;
export const COMPOSE_BODY_MAX_BYTES = 4 * 1024 * 1024;
export const COMPOSE_SOURCES_MAX = 10_000;
/** What the guest keeps of its journal for a host that does not listen; the oldest entries go first. */
export const JOURNAL_KEPT_MAX_BYTES = 512 * 1024;
/** Entries of so long go together; whoever caused them does not wait. */
export const JOURNAL_GATHER_MS = 1;
export const JOURNAL_PIECE_MAX_BYTES = 64 * 1024;
/** What is unpacked for a template: entries, the bytes of their names together, folders inside each other. */
export const UNPACK_ENTRIES_MAX = 300_000;
export const UNPACK_NAMES_MAX_BYTES = 64 * 1024 * 1024;
export const UNPACK_DEPTH_MAX = 256;
/** What an archive may expand to beyond the room on the disk: its headers and the rest of their blocks. */
export const UNPACK_OVERHEAD_MAX_BYTES = 256 * 1024 * 1024;
export const UNPACK_READ_BYTES = 256 * 1024;
/** How often a place is cleared for a file when somebody else puts something there at the same moment. */
export const UNPACK_TRIES_MAX = 3;
/** How long another program may hold the account files, and how often that is looked at. */
export const ACCOUNT_LOCK_MS = 15_000;
export const ACCOUNT_LOCK_EVERY_MS = 50;
export const ACCOUNT_FILE_MAX_BYTES = 16 * 1024 * 1024;
/** Folders below /usr/local that are opened to everybody. */
export const OPENED_FOLDERS_MAX = 100_000;
