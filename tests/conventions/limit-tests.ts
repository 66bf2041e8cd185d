/** For each limit in docs/limits.md, the test that reaches it: by file, the words that identify the test. */

const TESTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "src/builder/build-context.test.ts": {
    "environment variables of a build": "all variables together are bounded",
  },
  "src/builder/registry/manifest.test.ts": {
    "layers of an image": "an invalid or too large image is rejected with the reason",
    "download size of an image": "an invalid or too large image is rejected with the reason",
  },
  "src/cli/server/slow-clients.test.ts": {
    "request head, including the URL": "a head that is too long, or has too many headers, is 431",
    "request headers": "a head that is too long, or has too many headers, is 431",
    "time to receive a request head": "a connection without a complete head in time is closed",
    "idle time of a management connection": "slow bodies, unread responses and silent connections are closed",
  },
  "src/control/access/passwords.test.ts": {
    "passwords being checked": "one password is checked at a time, few wait, and one more is refused",
  },
  "src/control/budgets/request-rates.test.ts": {
    "reading requests": "may send ten seconds' worth at once, then gets a Retry-After",
    "changing requests": "has a separate budget for changes, and no other team's",
    "requests for files of volumes": "has a separate budget for the files of its volumes",
    "requests without a valid key": "has a budget by address; requests with a valid key from there are answered",
  },
  "src/control/access/signed-links.test.ts": {
    "links with an invalid signature": "a client that guesses too often must wait for the window, others need not",
  },
  "src/control/activity/events.test.ts": {
    webhooks: "belong to one team, and are bounded in number",
    "queued deliveries of a webhook": "beyond the queue limit are recorded as failed and not sent",
  },
  "src/control/activity/sandbox-logs.test.ts": {
    "stored log lines": "a log is bounded in lines and bytes, and drops the oldest",
    "log lines of all sandboxes of a team": "a team that floods is throttled, and others are not",
  },
  "src/control/builds/build-ends.test.ts": {
    "concurrent builds of a team": "are never all used by one team if there is another, unless the operator allows it",
    "time until a build starts": "are kept during uploads, also over a restart, for at most two hours",
    "queued builds": "in the queue are bounded per team, started or not",
    "concurrent builds": "are two; other builds wait, and their logs say so",
  },
  "src/control/builds/stored-build-log.test.ts": {
    "log of a build": "is bounded, and has a note when the bound is reached",
  },
  "src/control/builds/build-steps.test.ts": {
    "steps of a build": "more steps than the bound",
    "argument of a step": "STEP_ARGUMENT_MAX_BYTES + 1",
  },
  "src/control/builds/uploads.test.ts": {
    "concurrent uploads for builds": "concurrent uploads of a team are bounded, and one above gets a Retry-After",
    "stored uploads for builds": "stored files of a team are bounded in number and in bytes",
    "size of an upload for a build": "a body that is too large without a Content-Length",
  },
  "src/control/dockerfile/dockerfile-refusals.test.ts": {
    "size of a Dockerfile": "DOCKERFILE_MAX_BYTES} are taken",
    "instructions of a Dockerfile": "DOCKERFILE_INSTRUCTIONS_MAX} are taken",
  },
  "src/control/http/request-body.test.ts": {
    "JSON bodies in transit": "of one team are held up to its bound",
    "JSON bodies of all teams in transit": "of all teams are held up to one bound",
    "bytes of JSON bodies": "a team that sends more than its bytes each second",
    "body of a request": "has at most 1 MiB",
    "body of a create or build request": "of exactly 4 MiB creates a sandbox",
    "time for a body to arrive": "that does not arrive in time",
    "values in a body": "has a bounded number of values",
    "nesting levels of a body": "has a bounded depth",
  },
  "src/control/lifecycle/create.test.ts": {
    "entries of metadata": "metadata must have at most 256 entries, got 257",
    "key of metadata": "metadata must have keys of at most 256 characters, got one of 257",
    "total metadata": "metadata must hold at most 65536 bytes of keys and values, got 65537",
    "one environment variable": "envVars.V must take at most 131072 bytes as NAME=VALUE with a NUL, got 131073",
    "total environment variables": "envVars must take at most 1048576 bytes together, got 1100045",
    "`mcp` of a create": "mcp must have at most 65536 bytes as JSON, got 80013",
  },
  "src/control/lifecycle/idempotent-creates.test.ts": {
    "idempotency keys in 24 hours": "above the team's limit is rejected, and nothing is created",
  },
  "src/control/lifecycle/transitions/egress-changes.test.ts": {
    "queued changes of network rules": "are rejected if they would wait too long",
  },
  "src/control/login/login-pages.test.ts": {
    "attempts to sign in": "gets 429 after too many attempts for an email address or from a network",
    "logins of a user or API key": "a 101st login of a user ends the oldest",
  },
  "src/control/routes/key-routes.test.ts": {
    "API keys": "above the team's limit is rejected, also under concurrency; a deletion frees a place",
    "access tokens": "above the user's limit is rejected, also under concurrency",
  },
  "src/control/routes/network-fields.test.ts": {
    "entries of a network list": "must have at most 1000 entries, got 1001",
    "host names with header rules": "at most 10 entries, got 11",
    "name of a header rule": "must have names of at most 128 characters, got one of 132",
    "headers of a rule": "must have at most 20 entries, got 21",
    "name of a header of a rule": "at most 64 characters, got 65",
    "value of a header of a rule": "at most 2048 characters, got 2049",
    "placeholders of a rule": "at most 100 placeholders together, got 101",
  },
  "src/control/secrets/identity.test.ts": {
    "identity tokens": "iam.tokens must have at most 5 entries, got 6",
    "published signing keys": "waits when too many keys are published, and keys survive a restart",
  },
  "src/control/secrets/rule-answers.test.ts": {
    "requests that wait for headers of a rule":
      "thousands of requests cost one read at a time, and beyond a bound they fail",
    "headers that rules set on a request": "for more bytes than headers may have",
    "recorded hosts for which a sandbox used a secret":
      "counts hosts of one sandbox beyond a bound under the pattern of the rule",
  },
  "src/control/secrets/secret-uses.test.ts": {
    "recorded uses of a secret": "the record of a secret is bounded: uses of the longest ago are removed",
  },
  "src/control/secrets/secrets-api.test.ts": {
    secrets: "a team has at most as many secrets and versions as its limits say",
    "kept versions of a secret": "a team has at most as many secrets and versions as its limits say",
    "value of a secret": "value must have at most 16384 bytes, got 16386",
    "entries of a secret's metadata": "at most 32 entries",
    "total metadata of a secret": "at most 8192 bytes of keys and values, got 8200",
  },
  "src/control/templates/snapshot.test.ts": {
    snapshots: "above the team's limit is rejected before the sandbox is frozen; a deletion frees a place",
    "copies of a fork": "[{ count: 101 }]",
  },
  "src/control/views/sandbox-list.test.ts": {
    "entries of a page": "limit=101",
  },
  "src/control/volumes/content-quota.test.ts": {
    "volumes with concurrent file requests":
      "a team uses a bounded number of volumes at once, each without limit, and blocks no other team",
  },
  "src/control/volumes/volumes.test.ts": {
    "mounted volumes": "above the limit of a sandbox are rejected",
    volumes: "have unique names in the team, and are bounded in number",
    "size of a volume": "sizeMB: 102_401",
  },
  "src/edge/proxy/connection-limits.test.ts": {
    "concurrent requests, streams and WebSockets to a sandbox":
      "one above the limit of a sandbox is rejected, and one more passes when one ends",
    "concurrent requests, streams and WebSockets of a team": "one above the limit of a team is rejected",
  },
  "src/edge/proxy/large-bodies.test.ts": {
    "response bytes not yet read by a client": "a client that does not read blocks the service",
  },
  "src/edge/front/http2-uploads.test.ts": {
    "HTTP/2 request bodies not yet read by services":
      "unread bodies of one connection are not buffered, and arrive complete later",
  },
  "src/edge/proxy/exchange.test.ts": {
    "response head of a service": "an endless head",
  },
  "src/egress/rule-certificates.test.ts": {
    "certificates for new names with header rules":
      "thousands of names of one sandbox are limited, and do not affect others",
  },
  "src/egress/program/relay-limits.test.ts": {
    "outgoing connections relayed by name": "connections of a sandbox are bounded, and an ended one frees its place",
    "new outgoing connections relayed by name":
      "a flood of new connections is queued, and does not delay other sandboxes",
    "time until a relayed connection names its target": "a connection that does not name its target in time is closed",
  },
  "src/guest/file-tree/tree.test.ts": {
    "entries of a list": "a list of more entries than the limit is refused",
  },
  "src/guest/files/compose.root.test.ts": {
    "parts of a composed file": "too many sources",
    "body of a compose request": "a body above its limit, with or without a Content-Length",
  },
  "src/guest/files/file-metadata.root.test.ts": {
    "key of a file's metadata": "a key of 246 bytes is the longest",
    "metadata of a file": "4096 bytes with nine for each key are the most",
  },
  "src/guest/files/multipart.test.ts": {
    "files of one upload": "with endless parts is rejected",
    "header of a part of an upload": "with an endless header is refused",
  },
  "src/guest/filesystem/watching/watching-limits.root.test.ts": {
    "directory watches": "and streams are limited in number",
    "polled watches": "and streams are limited in number",
    "watch events not yet read by a client": "above the limit end the watch, stream or polled",
  },
  "src/guest/long-paths.root.test.ts": {
    "length of a path": "a path that is too long",
  },
  "src/guest/process/listening.root.test.ts": {
    "listeners of one process": "are bounded in number, and a closed one frees its place",
    "output not yet read by a client": "block the process on %s while one is slow, and lose nothing",
    "time without reading output": "continue without the one that stalled (%s)",
  },
  "src/guest/process/stdin.root.test.ts": {
    "input not yet read by a process": "that is unread is bounded",
  },
  "src/guest/rpc/broken-requests.root.test.ts": {
    "RPC message": "longer than the limit",
    "JSON structure of an RPC, without strings": "has a little in very many places",
  },
  "src/guest/system/forwarder.test.ts": {
    "loopback services reached through sandbox URLs": "is rejected above the limit",
    "connections to one loopback service": "carries a bounded number of connections",
  },
  "src/images/images.root.test.ts": {
    "templates based on one another": "can be stacked to a bounded depth, and the build's error has the remedy",
  },
  "src/sandbox/guest-link/guest-journal.test.ts": {
    "log lines of a sandbox": "that floods is disconnected, without growing the server",
  },
  "src/sandbox/volume/content.root.test.ts": {
    "entries of a list of a volume": "with more entries than the limit cannot be listed, and can be removed",
  },
  "tests/functional/host/build.test.ts": {
    "duration of a build": "a build ends at its time limit",
  },
  "tests/functional/host/dns-relay.test.ts": {
    "DNS queries": "DNS queries of a sandbox are bounded, and the connection relay has a larger bound",
    "DNS connections over TCP": "DNS connections of a sandbox are bounded, and do not count for others",
  },
  "tests/functional/host/host-contract.test.ts": {
    processors: "a sandbox with fewer processors than the machine sees and uses only those",
  },
  "tests/functional/host/layers.test.ts": {
    "files on the disk": "a disk is full when it has its maximum number of files",
    "free space on the machine's disk": "a build without space for its result fails and leaves nothing",
  },
  "tests/functional/host/start-command.test.ts": {
    "time until a start command is ready": "when it never is ready",
  },
  "tests/functional/sandboxes/team-limits.test.ts": {
    "running sandboxes":
      "no more sandboxes at once than allowed: the client's RateLimitError, and 429 for traffic that would wake one",
    "duration of a run": "no run longer than allowed",
  },
  "tests/security/hostile-pause.test.ts": {
    "pending signals and timers during a pause": "signals and timers are pending in this sandbox",
    "open deleted files during a pause":
      "a pause of memory that is slow or impossible to write fails at once, and the sandbox runs on",
    "memory image of a pause": "memory that many processes share is not written over and over until the disk is full",
  },
  "tests/security/machine-limits.test.ts": {
    "processes and threads": "beyond each bound a program of %s gets the documented error",
    "open files": "beyond each bound a program of %s gets the documented error",
    terminals: "beyond each bound a program of %s gets the documented error",
    "files in memory: `/dev/shm` and `/run`": "beyond each bound a program of %s gets the documented error",
    "memory of System V segments": "beyond each bound a program of %s gets the documented error",
    "processes of ordinary users": "beyond each bound a program of %s gets the documented error",
  },
  "tests/security/alone/resource-limits.test.ts": {
    memory: "a process that exceeds the template's memory is killed, and the sandbox runs on",
    disk: "the disk has the template's size, is full when it is full, and can be used again after a removal",
  },
  "tests/security/alone/sandbox-quotas.test.ts": {
    "outgoing connections": "connections to the outside are bounded, and the neighbour has its own",
  },
  "tests/security/throttled-sandboxes.test.ts": {
    "network bandwidth in each direction": "traffic to and from a sandbox and its disk throughput are limited",
    "disk throughput, reads and writes": "traffic to and from a sandbox and its disk throughput are limited",
  },
  "tests/security/uncounted-memory.test.ts": {
    "data queued in netlink, ping and UDP sockets":
      "a sandbox with too many unread bytes in %s sockets is ended with a reason",
  },
};

/** By the name of the limit. */
export const REACHED_BY: ReadonlyMap<string, readonly [file: string, words: string]> = new Map(
  Object.entries(TESTS).flatMap(([file, tests]) =>
    Object.entries(tests).map(([limit, words]) => [limit, [file, words] as const] as const),
  ),
);
