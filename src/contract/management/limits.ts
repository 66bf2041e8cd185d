/** Limits that clients of the management API see. */

export const TIMEOUT_DEFAULT_V1_SECONDS = 15;
export const TIMEOUT_DEFAULT_V2_SECONDS = 300;
export const REFRESH_DEFAULT_SECONDS = 15;
export const REFRESH_MAX_SECONDS = 3600;
export const PAGE_MAX = 100;
/** Metadata is part of every list, up to a hundred times on a page. */
export const METADATA_ENTRIES_MAX = 256;
export const METADATA_KEY_MAX_CHARS = 256;
export const METADATA_MAX_BYTES = 64 * 1024;
/** As JSON in UTF-8. It is part of the row that every request about the sandbox reads. */
export const MCP_MAX_BYTES = 64 * 1024;
/** The kernel starts no process with a longer variable (MAX_ARG_STRLEN, 32 pages of 4 KiB). */
export const ENV_VARIABLE_MAX_BYTES = 128 * 1024;
/** The kernel takes 2 MiB of arguments and variables (a quarter of the stack); the rest is for the arguments. */
export const ENV_TOTAL_MAX_BYTES = 1024 * 1024;

/** Entries per egress list, and characters per name, as in DNS. */
export const EGRESS_ENTRIES_MAX = 1_000;
export const EGRESS_ENTRY_MAX_CHARS = 253;
export const PORT_MAX = 65_535;
/** A name, a colon and a port. */
export const PROXY_ADDRESS_MAX_CHARS = 259;
/** SOCKS5 has one byte for the length of each. */
export const PROXY_CREDENTIAL_MAX_BYTES = 255;
export const MASK_REQUEST_HOST_MAX_CHARS = 261;
export const HTTPS_PORTS_MAX = 128;

/** Names with header rules per sandbox, and their bounds. A value is bounded with its placeholders. */
export const RULE_NAMES_MAX = 10;
export const RULE_NAME_MAX_CHARS = 128;
export const RULE_HEADERS_MAX = 20;
export const RULE_HEADER_NAME_MAX_CHARS = 64;
export const RULE_HEADER_VALUE_MAX_CHARS = 2048;
/** Per rule. Each is a value to read and decrypt for a request. */
export const RULE_PLACEHOLDERS_MAX = 100;
/** Workload identity tokens per sandbox, and their bounds. */
export const IDENTITY_TOKENS_MAX = 5;
export const IDENTITY_TOKEN_NAME_MAX_CHARS = 128;
export const IDENTITY_AUDIENCE_MAX_CHARS = 512;

export const SECRET_NAME_MAX_CHARS = 128;
/** A value can only become part of a header, and servers take no longer ones. */
export const SECRET_VALUE_MAX_BYTES = 16 * 1024;
export const SECRET_METADATA_ENTRIES_MAX = 32;
export const SECRET_METADATA_KEY_MAX_BYTES = 128;
export const SECRET_METADATA_VALUE_MAX_BYTES = 1024;
export const SECRET_METADATA_MAX_BYTES = 8192;

/** A repeated create is recognised by its Idempotency-Key for this long. */
export const IDEMPOTENCY_KEY_KEPT_MS = 24 * 60 * 60_000;
export const IDEMPOTENCY_KEY_MAX_CHARS = 255;
export const FORK_COUNT_MAX = 100;
export const TEMPLATE_NAME_MAX_CHARS = 128;
export const PAGE_TOKEN_MAX_CHARS = 256;
export const TEMPLATE_REFERENCE_MAX_CHARS = 256;
export const TEMPLATE_TAG_MAX_CHARS = 128;
/** Per request. */
export const TEMPLATE_TAGS_MAX = 64;

export const LOG_QUERY_DEFAULT = 1000;
export const LOG_SEARCH_MAX_CHARS = 256;
export const METRIC_SANDBOXES_MAX = 100;
export const EVENT_PAGE_DEFAULT = 10;
export const WEBHOOK_URL_MAX_CHARS = 2048;
export const WEBHOOK_NAME_MAX_CHARS = 128;
export const WEBHOOK_SECRET_MAX_CHARS = 256;
export const DELIVERY_PAGE_DEFAULT = 25;
export const KEY_NAME_MAX_CHARS = 128;
export const TEAM_SLUG_MAX_CHARS = 63;
/** Maximum teams in a request that creates a user. */
export const TEAMS_OF_REQUEST_MAX = 50;
export const AUDIT_TEXT_MAX_CHARS = 256;
/** SMTP's bound of a path. */
export const EMAIL_MAX_CHARS = 254;

/** Resources of a sandbox. */
export const CPU_COUNT_MIN = 1;
export const CPU_COUNT_MAX = 32;
export const CPU_COUNT_DEFAULT = 2;
export const MEMORY_MIN_MB = 128;
export const MEMORY_MAX_MB = 65_536;
export const MEMORY_DEFAULT_MB = 1024;
export const DISK_SIZE_DEFAULT_MB = 10_240;
export const VOLUME_NAME_MAX_CHARS = 128;
/** Volume content: paths, user and group ids, permission bits, levels of a list. */
export const VOLUME_PATH_MAX_CHARS = 4096;
export const VOLUME_ID_MAX = 65_535;
export const VOLUME_MODE_MAX = 0o7777;
export const VOLUME_LIST_DEPTH_DEFAULT = 1;
export const VOLUME_LIST_DEPTH_MAX = 10;
/** Mount path of a volume. */
export const VOLUME_MOUNT_PATH_MAX_CHARS = 1024;
