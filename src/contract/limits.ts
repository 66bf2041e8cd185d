/**
 * Every bound in the project, by name. A loop, queue, buffer or wait that is not bounded by something here is a bug.
 * Units come last in the name.
 */

// Management interface
export const REQUEST_BODY_MAX_BYTES = 16 * 1024 * 1024;
export const TIMEOUT_DEFAULT_V1_SECONDS = 15;
export const TIMEOUT_DEFAULT_V2_SECONDS = 300;
export const REFRESH_DEFAULT_SECONDS = 15;
export const REFRESH_MAX_SECONDS = 3600;
export const INT32_MAX = 2_147_483_647;
export const PAGE_MAX = 100;
export const ENV_VARIABLE_MAX_BYTES = 128 * 1024;
export const ENV_TOTAL_MAX_BYTES = 1024 * 1024;

// Sandboxes
export const ACCESS_TOKENS_KEPT = 16;
export const SANDBOX_PIDS_MAX = 4096;
/** Of these, the processes of one ordinary user can never take the last few: root needs them to end a fork bomb. */
export const SANDBOX_PIDS_FOR_ROOT = 256;
export const DISK_DEFAULT_MB = 10_240;

// Host work
export const COMMAND_DEFAULT_MS = 30_000;
export const COMMAND_OUTPUT_MAX_BYTES = 1024 * 1024;
export const GUEST_READY_MS = 30_000;
export const GUEST_CALL_MS = 10_000;
/** Questions under way, of all sandboxes and of one; the oldest gives way. */
export const DNS_QUERIES_MAX = 1024;
export const DNS_QUERIES_PER_SANDBOX_MAX = 64;
export const DNS_CONNECTIONS_MAX = 512;
export const DNS_CONNECTIONS_PER_SANDBOX_MAX = 8;
export const DNS_ANSWER_MS = 5_000;
export const BOOTS_AT_ONCE_MAX = 8;
export const READY_PER_KIND = 2;
export const READY_REFILL_DELAY_MS = 100;
export const LIVENESS_CHECK_MS = 500;
export const FREEZE_MS = 10_000;
export const CHECKPOINT_MS = 300_000;
export const RESTORE_MS = 300_000;
/** A restore in which nothing moves for so long never will; how often it is looked at. */
export const RESTORE_STALLED_MS = 5_000;
export const STALL_CHECK_MS = 500;
/** Written and read back at the same time, on the whole machine: each keeps a processor and the disk busy. */
export const CHECKPOINTS_AT_ONCE_MAX = 2;
export const RESTORES_AT_ONCE_MAX = 4;
/** With cgroup v2: so many times its memory and its processes a sandbox may have until it is restored. */
export const RESTORE_ROOM = 2;
/** A memory image is at most so many times as large as the sandbox's memory: processes that share some are written one by one. */
export const IMAGE_PER_MEMORY_MAX = 16;
export const IMAGE_WATCH_MS = 250;
/** How long CRIU may take to write a sandbox: so much for any, and more for each byte there is. */
export const IMAGE_BASE_MS = 30_000;
export const IMAGE_BYTES_PER_SECOND_MIN = 16 * 1024 * 1024;
/** And from when it is told to stop until it is made to. */
export const IMAGE_STOP_MS = 5_000;
/** A deleted file that a process still holds open is kept in the memory image up to this size. */
export const DELETED_FILE_MAX_BYTES = 1024 ** 3;
/** A file of a memory image up to this size is made durable together with the others. */
export const PACKED_FILE_MAX_BYTES = 128 * 1024;
/** Of a file of a memory image, digested in one step. */
export const DIGEST_SLICE_BYTES = 4 * 1024 * 1024;
/** How many lines of a tool's complaint are looked at. */
export const TOOL_LOG_MAX_BYTES = 4 * 1024 * 1024;

// Control
/** Sandboxes that expire together are taken down this many at a time. */
export const TAKEDOWNS_AT_ONCE = 8;
/** A wall-clock jump is noticed at the latest after this; it also keeps every timer far below the 2^31 ms that timers can hold. */
export const EXPIRY_SLEEP_MAX_MS = 60_000;
/** How long expiry waits after the store failed before it asks again. */
export const EXPIRY_RETRY_MS = 250;
/** A sandbox that could not be destroyed is tried again after the first of these, doubling up to the second. */
export const TAKEDOWN_RETRY_MIN_MS = 1_000;
export const TAKEDOWN_RETRY_MAX_MS = 60_000;
/** How long, and through how many changes, a call waits for a sandbox that is between two states. */
export const TRANSITION_WAIT_MS = 60_000;
export const TRANSITION_ROUNDS_MAX = 3;
/** The same for what is to be done with a running sandbox, which others may go on taking in hand. */
export const AT_REST_ROUNDS_MAX = 32;
/** How often a kill looks again when a new run has begun under its hands. */
export const KILL_ROUNDS_MAX = 16;
/** Sandboxes that are due for a pause together are paused this many at a time. */
export const AUTO_PAUSES_AT_ONCE = 4;
/** A pause at the end of a timeout that cannot be done is put off so often and for so long; then memory is given up. */
export const AUTO_PAUSE_PUT_OFFS_MAX = 3;
export const AUTO_PAUSE_PUT_OFF_MS = 300_000;
/** What traffic wakes lives at least this long. */
export const WAKE_MIN_SECONDS = 300;
export const FORK_COUNT_MAX = 100;
export const FORKS_AT_ONCE = 8;
/** A checkpoint that could not be removed is tried again after the first of these, doubling up to the second. */
export const DISCARD_RETRY_MIN_MS = 1_000;
export const DISCARD_RETRY_MAX_MS = 60_000;
export const DISCARDS_AT_ONCE = 4;
export const TEMPLATE_NAME_MAX_CHARS = 128;
/** Rows read at a time while a list is filtered by metadata. */
export const SCAN_BATCH_ROWS = 500;
export const JSON_DEPTH_MAX = 64;
export const METADATA_FILTER_PAIRS_MAX = 64;
export const PAGE_TOKEN_MAX_CHARS = 256;
export const TEMPLATE_REFERENCE_MAX_CHARS = 256;
export const VALIDATION_PROBLEMS_SHOWN = 5;
/** A field's name may be the client's own, and long. */
export const FIELD_SHOWN_MAX_CHARS = 128;
/** A longer path is cut in log lines. */
export const LOGGED_PATH_MAX_CHARS = 256;
/** The last use of a key is written at most this often. */
export const KEY_USE_WRITTEN_EVERY_MS = 60_000;
export const KEY_NAME_MAX_CHARS = 128;
/** Room that the store keeps in its files for when the disk is full. */
export const STORE_ROOM_BYTES = 4 * 1024 * 1024;
export const SQLITE_BUSY_MS = 5_000;
export const POSTGRES_CONNECTIONS_MAX = 10;

/** Guesses at signed links: after so many misses in a window, a client waits. */
export const LINK_MISSES_MAX = 30;
export const LINK_MISSES_WINDOW_MS = 60_000;
export const LINK_CLIENTS_MAX = 10_000;
/** How many sandboxes a link is compared with, the newest first. */
export const LINK_SANDBOXES_MAX = 10_000;

// Guest
export const GUEST_RPC_MESSAGE_MAX_BYTES = 64 * 1024 * 1024;
/** Outside of its strings a JSON message takes many times its size in memory once it is parsed. */
export const GUEST_JSON_STRUCTURE_MAX_BYTES = 4 * 1024 * 1024;
export const OUTPUT_CHUNK_MAX_BYTES = 32 * 1024;
export const TERMINAL_CHUNK_MAX_BYTES = 16 * 1024;
export const SUBSCRIBER_BUFFER_MAX_BYTES = 512 * 1024;
/** Counted for each queued chunk besides its bytes, so that a flood of tiny chunks is bounded, too. */
export const SUBSCRIBER_CHUNK_OVERHEAD_BYTES = 128;
/** A source that cannot be stopped in time may overfill a listener's buffer by this much before the listener is dropped. */
export const SUBSCRIBER_OVERFILL_MAX_BYTES = 2 * 1024 * 1024;
export const SUBSCRIBER_STALLED_MS = 30_000;
export const SUBSCRIBERS_PER_PROCESS_MAX = 128;
export const INPUT_SLICE_MAX_BYTES = 64 * 1024;
export const INPUT_WAITING_MAX_BYTES = 64 * 1024 * 1024;
export const EXIT_RETENTION_MS = 30_000;
export const EXITS_RETAINED_MAX = 1024;
/** How long output is still read after a signalled process is gone while somebody else holds its pipes. */
export const OUTPUT_DRAIN_AFTER_SIGNAL_MS = 250;
export const KEEPALIVE_DEFAULT_SECONDS = 90;
export const KEEPALIVE_MAX_SECONDS = 86_400;
export const LIST_ENTRIES_MAX = 200_000;
export const LIST_STAT_PARALLEL = 32;
export const MULTIPART_HEADER_MAX_BYTES = 64 * 1024;
export const MULTIPART_BOUNDARY_MAX_BYTES = 70;
export const MULTIPART_PARTS_MAX = 10_000;
export const FILE_READ_CHUNK_BYTES = 256 * 1024;
/** Bytes carried between two collections of the guest's garbage. */
export const GARBAGE_MAX_BYTES = 16 * 1024 * 1024;
/** Counted for each message of a stream besides its bytes: what making it leaves behind, whatever its size. */
export const GARBAGE_PER_MESSAGE_BYTES = 8 * 1024;
/** A smaller piece is not worth the work of freeing it by hand. */
export const DISCARDED_PIECE_MIN_BYTES = 16 * 1024;
/** What a sandbox shows of its memory is measured at most this often. */
export const MEMORY_FILE_EVERY_MS = 1_000;
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
/** Events on their way from a watcher's buffer to its stream. */
export const WATCHER_TAKE_EVENTS = 64;
/** What a name of an extended attribute leaves for a key behind `user.e2b.`. */
export const FILE_METADATA_KEY_MAX_BYTES = 246;
/** All keys with their prefixes and all values of one upload. */
export const FILE_METADATA_MAX_BYTES = 4096;
/** Programs may have put more at a file than an upload can; what is beyond this is not shown. */
export const ENTRY_METADATA_MAX_BYTES = 64 * 1024;
export const COMPOSE_BODY_MAX_BYTES = 4 * 1024 * 1024;
export const COMPOSE_SOURCES_MAX = 10_000;
/** What the guest keeps of its journal for a host that does not listen; the oldest entries go first. */
export const JOURNAL_KEPT_MAX_BYTES = 512 * 1024;
/** One line on its way to the host. Texts are cut to fit when they are noted, so an honest line never gets there. */
export const JOURNAL_LINE_MAX_BYTES = 16 * 1024;
export const JOURNAL_TEXT_MAX_CHARS = 1024;
export const JOURNAL_FIELDS_MAX = 24;
export const JOURNAL_FIELD_NAME_MAX_CHARS = 64;
/** Entries of so long go together; whoever caused them does not wait. */
export const JOURNAL_GATHER_MS = 1;
export const JOURNAL_PIECE_MAX_BYTES = 64 * 1024;
/** What the host takes from one sandbox's journal: at once, and each second for good. Above, it hangs up for a while. */
export const JOURNAL_BURST_MAX_BYTES = 1024 * 1024;
export const JOURNAL_BYTES_PER_SECOND = 32 * 1024;
/** Pauses before the host listens again double from the first to the second. */
export const JOURNAL_RETRY_MIN_MS = 100;
export const JOURNAL_RETRY_MAX_MS = 5_000;

// What is remembered of sandboxes: logs, metrics, events
/** Nothing of it is kept or shown for longer. */
export const CHRONICLE_KEPT_MS = 7 * 24 * 3600 * 1000;
/** What is too old, or too much, is removed in rounds this far apart, in steps of so many rows. */
export const CHRONICLE_SWEEP_MS = 60_000;
export const CHRONICLE_SWEEP_ROWS = 200;
export const CHRONICLE_SWEEP_STEPS = 50;
/** Lines and events go to the store together with those of the next few milliseconds. */
export const LOG_FLUSH_MS = 100;
export const EVENT_FLUSH_MS = 25;
/** The oldest lines of a sandbox go first. */
export const LOG_LINES_PER_SANDBOX_MAX = 20_000;
export const LOG_BYTES_PER_SANDBOX_MAX = 8 * 1024 * 1024;
export const LOG_BYTES_PER_TEAM_MAX = 512 * 1024 * 1024;
/** Lines of one sandbox that wait for the store; more are dropped, and a line says how many. */
export const LOG_WAITING_MAX_LINES = 5_000;
export const LOG_WAITING_MAX_BYTES = 2 * 1024 * 1024;
/** What the guests of one team may add, however many they are: at once, and each second for good. */
export const LOG_TEAM_BURST_MAX_BYTES = 16 * 1024 * 1024;
export const LOG_TEAM_BYTES_PER_SECOND = 256 * 1024;
/** Sandboxes whose lines are written in one transaction. */
export const LOG_PAGES_PER_WRITE = 32;
export const LOG_QUERY_DEFAULT = 1000;
export const LOG_SEARCH_MAX_CHARS = 256;
/** Sandboxes whose logs control has at hand; of others it reads again where they end. */
export const LOG_SANDBOXES_KNOWN_MAX = 10_000;
export const METRIC_EVERY_MS = 5_000;
/** A new sandbox is measured first after this. */
export const METRIC_FIRST_MS = 1_000;
/** Samples lie together in blocks of so long, which are written so often. */
export const METRIC_BLOCK_MS = 600_000;
export const METRIC_WRITE_MS = 60_000;
export const METRIC_BLOCKS_PER_WRITE = 32;
export const METRIC_SANDBOXES_MAX = 100;
/** Sandboxes measured before others get their turn on the processor. */
export const METRIC_TURN = 16;
export const MEASURE_DISK_MS = 1_000;
export const EVENT_PAGE_DEFAULT = 10;
/** Events that wait for the store. */
export const EVENTS_WAITING_MAX = 10_000;
export const EVENTS_PER_WRITE = 64;
/** Metadata of a sandbox that is longer is not repeated in its events: each is stored, and a short request makes one. */
export const EVENT_METADATA_MAX_CHARS = 16 * 1024;
export const WEBHOOKS_PER_TEAM_MAX = 20;
export const WEBHOOK_URL_MAX_CHARS = 2048;
export const WEBHOOK_NAME_MAX_CHARS = 128;
export const WEBHOOK_SECRET_MAX_CHARS = 256;
/** Deliveries under way: of all, of one team, to one webhook. A slow receiver holds up nobody but itself. */
export const DELIVERIES_AT_ONCE = 64;
export const DELIVERIES_PER_TEAM_AT_ONCE = 8;
export const DELIVERIES_PER_WEBHOOK_AT_ONCE = 2;
export const DELIVERY_ATTEMPTS_MAX = 4;
export const DELIVERY_RETRY_MS = 10_000;
/** From the look-up of the name to the first line of the answer. */
export const DELIVERY_MS = 10_000;
/** Nothing after it matters. */
export const DELIVERY_ANSWER_MAX_BYTES = 8 * 1024;
/** Deliveries of one webhook that are still to be made; later events are recorded as failed. */
export const DELIVERIES_WAITING_MAX = 1_000;
export const DELIVERIES_KEPT_MAX = 10_000;
export const DELIVERY_PAGE_DEFAULT = 25;
/** How long deliveries rest after the store failed. */
export const DELIVERY_STORE_RETRY_MS = 1_000;
export const WEBHOOK_STATS_BUCKETS = 24;

// Edge
/** Requests and streams to all sandboxes at once; the most that Bun takes. */
export const REQUESTS_TO_SANDBOXES_MAX = 65_336;
/** Bodies to sandboxes are streamed, so their size is not ours to limit; Bun.serve would by default (128 MiB). */
export const EDGE_REQUEST_BODY_MAX_BYTES = Number.MAX_SAFE_INTEGER;
/** A body of announced length up to this is passed on whole if it arrives in one piece; all others are streamed. */
export const EDGE_WHOLE_BODY_MAX_BYTES = 64 * 1024;
/** Of one download, between the sandbox's connection and the client's: above this the sandbox is held back. */
export const EDGE_ANSWER_WAITING_MAX_BYTES = 2 * 1024 * 1024;
/** Counted for each waiting piece besides its bytes, so that a trickle of tiny pieces is bounded, too. */
export const EDGE_ANSWER_PIECE_OVERHEAD_BYTES = 128;
/** A smaller piece is not worth the work of freeing it by hand. */
export const EDGE_RELEASED_PIECE_MIN_BYTES = 16 * 1024;
export const EDGE_CHUNK_LINE_MAX_BYTES = 1024;
export const EDGE_CHUNK_TRAILER_MAX_LINES = 64;
/** How long a refused connection to a sandbox's port is tried again before the port counts as closed. */
export const EDGE_CONNECT_BUDGET_MS = 1000;
/** The same for the runtime port, which is always meant to be up: its daemon may be coming back. */
export const EDGE_RUNTIME_CONNECT_BUDGET_MS = 2000;
/** Pauses between tries grow by this step up to the maximum: 100, 200, 300, 400, 400 … */
export const EDGE_CONNECT_PAUSE_STEP_MS = 100;
export const EDGE_CONNECT_PAUSE_MAX_MS = 400;
/** How long, and for how many ports, the edge remembers the way to a service on a loopback address. */
export const EDGE_FORWARD_KEPT_MS = 10_000;
export const EDGE_FORWARDS_KEPT = 4096;
/** A path that still changes after so many percent-decodings hides something, and is refused on the runtime port. */
export const EDGE_PATH_DECODINGS_MAX = 8;
export const EDGE_ANSWER_HEAD_MAX_BYTES = 64 * 1024;
export const EDGE_HANDSHAKE_BODY_MAX_BYTES = 64 * 1024;
export const EDGE_WEBSOCKET_MESSAGE_MAX_BYTES = 16 * 1024 * 1024;
/** Counted for each fragment of a message besides its bytes, so that a flood of tiny fragments is bounded, too. */
export const EDGE_WEBSOCKET_FRAGMENT_OVERHEAD_BYTES = 128;
/** A client that answers no ping for so long is gone. */
export const EDGE_WEBSOCKET_SILENT_SECONDS = 120;
/** Above the first the sending side is held back; above the second the connection is given up with code 1013. */
export const EDGE_WEBSOCKET_QUEUE_PAUSE_BYTES = 1024 * 1024;
export const EDGE_WEBSOCKET_QUEUE_MAX_BYTES = 32 * 1024 * 1024;
export const EDGE_WEBSOCKET_CLOSE_MS = 5000;
