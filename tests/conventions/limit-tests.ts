/** For each limit in docs/limits.md, the test that reaches it: the file, and the words that identify the test. */

export const REACHED_BY: Readonly<Record<string, readonly [file: string, test: string]>> = {
  processors: [
    "tests/functional/host/host-contract.test.ts",
    "a sandbox with fewer processors than the machine counts just those, and gets no more",
  ],
  memory: [
    "tests/security/resource-limits.test.ts",
    "a process that takes more memory than the template has is ended, the sandbox is not",
  ],
  disk: [
    "tests/security/resource-limits.test.ts",
    "the disk has the template's size, is full when it is full, and can be used again after a removal",
  ],
  "mounted volumes": ["src/control/volumes/volumes.test.ts", "of more than a sandbox may have are refused"],
  "stored log lines": [
    "src/control/activity/sandbox-logs.test.ts",
    "a log is bounded in lines and bytes; the oldest go",
  ],
  "queued changes of network rules": [
    "src/control/lifecycle/transitions/egress-changes.test.ts",
    "those that would wait too long are told so",
  ],
  "running sandboxes": [
    "tests/functional/sandboxes/team-limits.test.ts",
    "no more sandboxes at once than allowed: the client's RateLimitError, and 429 for traffic that would wake one",
  ],
  "duration of a run": ["tests/functional/sandboxes/team-limits.test.ts", "no run longer than allowed"],
  "reading requests": [
    "src/control/access/request-rates.test.ts",
    "sends ten seconds' worth at once, then hears when to come again, and may",
  ],
  "changing requests": [
    "src/control/access/request-rates.test.ts",
    "has a budget of its own for what changes something, and no other team's",
  ],
  "requests for files of volumes": [
    "src/control/access/request-rates.test.ts",
    "has another budget for the files of its volumes",
  ],
  "concurrent builds of a team": [
    "src/control/builds/build-ends.test.ts",
    "are never all one team's where there is another, unless the operator allows it",
  ],
  "time until a build starts": [
    "src/control/builds/build-ends.test.ts",
    "are kept while files are uploaded, also over a restart, for two hours at most",
  ],
  "queued builds": ["src/control/builds/build-ends.test.ts", "in the line are bounded per team, started or not"],
  "concurrent uploads for builds": [
    "src/control/builds/uploads.test.ts",
    "so many at once are a team's, and one too many is told to come again",
  ],
  "stored uploads for builds": [
    "src/control/builds/uploads.test.ts",
    "what a team keeps is bounded in number and in bytes",
  ],
  volumes: [
    "src/control/volumes/volumes.test.ts",
    "have names that are unique in the team, of which there are only so many",
  ],
  "volumes with concurrent file requests": [
    "src/control/volumes/content-quota.test.ts",
    "a team works on so many volumes at once, on each as often as it likes, and keeps no other team out",
  ],
  "API keys": [
    "src/control/routes/key-routes.test.ts",
    "beyond as many as a team may have is refused, also of many at once; a deleted one makes room",
  ],
  "access tokens": [
    "src/control/routes/key-routes.test.ts",
    "beyond as many as a user may have is refused, also of many at once",
  ],
  snapshots: [
    "src/control/templates/snapshot.test.ts",
    "beyond as many as a team may have is refused before anything stands still; one that is deleted makes room",
  ],
  webhooks: ["src/control/activity/events.test.ts", "are the team's own, and bounded in number"],
  "queued deliveries of a webhook": [
    "src/control/activity/events.test.ts",
    "beyond what may wait are recorded as failed, not sent",
  ],
  "log lines of all sandboxes of a team": [
    "src/control/activity/sandbox-logs.test.ts",
    "a team that floods is held back, another is not",
  ],
  "requests without a valid key": [
    "src/control/access/request-rates.test.ts",
    "has a budget for his address, whatever he asks; a valid key is heard from there all the same",
  ],
  "links with an invalid signature": [
    "src/control/access/signed-links.test.ts",
    "who guesses too often waits, others do not, and after the window it may try again",
  ],
  "JSON bodies in transit": ["src/control/http/request-body.test.ts", "of one team are held up to its bound"],
  "JSON bodies of all teams in transit": [
    "src/control/http/request-body.test.ts",
    "of all teams are held up to one bound",
  ],
  "bytes of JSON bodies": [
    "src/control/http/request-body.test.ts",
    "a team that sends more than its bytes each second",
  ],
  "body of a request": ["src/control/http/request-body.test.ts", "has at most 1 MiB"],
  "body of a create or build request": ["src/control/http/request-body.test.ts", "of exactly 4 MiB creates a sandbox"],
  "time for a body to arrive": ["src/control/http/request-body.test.ts", "that does not arrive in time"],
  "values in a body": ["src/control/http/request-body.test.ts", "has at most so many values"],
  "nesting levels of a body": ["src/control/http/request-body.test.ts", "has at most so many levels"],
  "entries of metadata": ["src/control/lifecycle/create.test.ts", "metadata must have at most 256 entries, got 257"],
  "key of metadata": [
    "src/control/lifecycle/create.test.ts",
    "metadata must have keys of at most 256 characters, got one of 257",
  ],
  "total metadata": [
    "src/control/lifecycle/create.test.ts",
    "metadata must hold at most 65536 bytes of keys and values, got 65537",
  ],
  "one environment variable": [
    "src/control/lifecycle/create.test.ts",
    "envVars.V must take at most 131072 bytes as NAME=VALUE with a NUL, got 131073",
  ],
  "total environment variables": [
    "src/control/lifecycle/create.test.ts",
    "envVars must take at most 1048576 bytes together, got 1100045",
  ],
  "`mcp` of a create": ["src/control/lifecycle/create.test.ts", "mcp must have at most 65536 bytes as JSON, got 80013"],
  "entries of a network list": [
    "src/control/routes/network-fields.test.ts",
    "must have at most 1000 entries, got 1001",
  ],
  "copies of a fork": ["src/control/templates/snapshot.test.ts", "[{ count: 101 }]"],
  "entries of a page": ["src/control/views/sandbox-list.test.ts", "limit=101"],
  "size of a volume": ["src/control/volumes/volumes.test.ts", "sizeMB: 102_401"],
  "concurrent builds": [
    "src/control/builds/build-ends.test.ts",
    "are for two builds at once; the others wait, and say so",
  ],
  "steps of a build": ["src/control/builds/build-steps.test.ts", "more steps than the bound"],
  "argument of a step": ["src/control/builds/build-steps.test.ts", "STEP_ARGUMENT_MAX_BYTES + 1"],
  "log of a build": ["src/control/builds/build-log.test.ts", "has a bound, and says when it is reached"],
  "size of an upload for a build": ["src/control/builds/uploads.test.ts", "what is too large without having said so"],
  "size of a Dockerfile": ["src/control/dockerfile/dockerfile-refusals.test.ts", "DOCKERFILE_MAX_BYTES} are taken"],
  "instructions of a Dockerfile": [
    "src/control/dockerfile/dockerfile-refusals.test.ts",
    "DOCKERFILE_INSTRUCTIONS_MAX} are taken",
  ],
  "processes and threads": [
    "tests/security/machine-limits.test.ts",
    "beyond each bound a program of %s gets the error that is published",
  ],
  "open files": [
    "tests/security/machine-limits.test.ts",
    "beyond each bound a program of %s gets the error that is published",
  ],
  "files on the disk": ["tests/functional/host/layers.test.ts", "a disk is full at its number of files"],
  terminals: [
    "tests/security/machine-limits.test.ts",
    "beyond each bound a program of %s gets the error that is published",
  ],
  "files in memory: `/dev/shm` and `/run`": [
    "tests/security/machine-limits.test.ts",
    "beyond each bound a program of %s gets the error that is published",
  ],
  "memory of System V segments": [
    "tests/security/machine-limits.test.ts",
    "beyond each bound a program of %s gets the error that is published",
  ],
  "data queued in netlink, ping and UDP sockets": [
    "tests/security/uncounted-memory.test.ts",
    "a sandbox that leaves too much unread in %s sockets is ended, and told why",
  ],
  "pending signals and timers during a pause": [
    "tests/security/hostile-pause.test.ts",
    "signals and timers wait in this sandbox",
  ],
  "open deleted files during a pause": [
    "tests/security/hostile-pause.test.ts",
    "what would take long to write, or could not be, is refused at once and goes on",
  ],
  "network bandwidth in each direction": [
    "tests/security/throttled-sandboxes.test.ts",
    "what goes to a sandbox, comes from it, and passes its disk is bounded in each second",
  ],
  "disk throughput, reads and writes": [
    "tests/security/throttled-sandboxes.test.ts",
    "what goes to a sandbox, comes from it, and passes its disk is bounded in each second",
  ],
  "outgoing connections": [
    "tests/security/sandbox-quotas.test.ts",
    "connections to the outside are bounded, and the neighbour has its own",
  ],
  "outgoing connections relayed by name": [
    "src/egress/program/relay-limits.test.ts",
    "a sandbox has so many connections and no more; one that ends makes room",
  ],
  "new outgoing connections relayed by name": [
    "src/egress/program/relay-limits.test.ts",
    "a flood of new connections waits for its turn, and holds up nobody else",
  ],
  "time until a relayed connection names its target": [
    "src/egress/program/relay-limits.test.ts",
    "who does not say in time whom it is for is cut, however it dawdles",
  ],
  "DNS queries": [
    "tests/functional/host/dns-relay.test.ts",
    "a sandbox has so many questions at once, and what relays connections for all of them has more",
  ],
  "DNS connections over TCP": [
    "tests/functional/host/dns-relay.test.ts",
    "one sandbox has a few connections at once, and its neighbours have theirs",
  ],
  "log lines of a sandbox": [
    "src/sandbox/guest-link/guest-journal.test.ts",
    "that floods is cut off, and the server does not grow by it",
  ],
  "memory image of a pause": [
    "tests/security/hostile-pause.test.ts",
    "memory that many processes share is not written over and over until the disk is full",
  ],
  "free space on the machine's disk": [
    "tests/functional/host/layers.test.ts",
    "a build that has no room for what it wrote fails, says so, and leaves nothing",
  ],
  "duration of a build": ["tests/functional/host/build.test.ts", "a build that takes too long is ended"],
  "time until a start command is ready": ["tests/functional/host/start-command.test.ts", "when it never is ready"],
  "environment variables of a build": ["src/builder/build-context.test.ts", "all variables together are bounded"],
  "layers of an image": [
    "src/builder/registry/manifest.test.ts",
    "what is no image, or too large a one, is refused with the reason",
  ],
  "download size of an image": [
    "src/builder/registry/manifest.test.ts",
    "what is no image, or too large a one, is refused with the reason",
  ],
  "templates based on one another": [
    "src/images/images.root.test.ts",
    "can be stacked on only so many others, and a build is told what to do",
  ],
  "entries of a list of a volume": [
    "src/sandbox/volume/content.root.test.ts",
    "with more than can be told are refused, and so are removed as any",
  ],
  "processes of ordinary users": [
    "tests/security/machine-limits.test.ts",
    "beyond each bound a program of %s gets the error that is published",
  ],
  "listeners of one process": [
    "src/guest/process/listening.root.test.ts",
    "are so many and no more; one that leaves makes room",
  ],
  "output not yet read by a client": [
    "src/guest/process/listening.root.test.ts",
    "hold the process back on %s while one is slow, and lose nothing",
  ],
  "time without reading output": [
    "src/guest/process/listening.root.test.ts",
    "that takes nothing is dropped, and told why",
  ],
  "input not yet read by a process": ["src/guest/process/stdin.root.test.ts", "that waits to be read is bounded"],
  "directory watches": [
    "src/guest/filesystem/watching/watching-limits.root.test.ts",
    "and streams are limited in number",
  ],
  "polled watches": ["src/guest/filesystem/watching/watching-limits.root.test.ts", "and streams are limited in number"],
  "watch events not yet read by a client": [
    "src/guest/filesystem/watching/watching-limits.root.test.ts",
    "end the watching, stream or polled, and the daemon stays small",
  ],
  "RPC message": ["src/guest/rpc/broken-requests.root.test.ts", "longer than the limit"],
  "JSON structure of an RPC, without strings": [
    "src/guest/rpc/broken-requests.root.test.ts",
    "has a little in very many places",
  ],
  "entries of a list": ["src/guest/file-tree/tree.test.ts", "more entries than can be told are refused"],
  "length of a path": ["src/guest/long-paths.root.test.ts", "a path that is too long"],
  "files of one upload": ["src/guest/files/multipart.test.ts", "with parts without end is refused"],
  "header of a part of an upload": ["src/guest/files/multipart.test.ts", "with an endless header is refused"],
  "key of a file's metadata": ["src/guest/files/file-metadata.root.test.ts", "a key of 246 bytes is the longest"],
  "metadata of a file": [
    "src/guest/files/file-metadata.root.test.ts",
    "4096 bytes with nine for each key are the most",
  ],
  "parts of a composed file": ["src/guest/files/compose.root.test.ts", "too many sources"],
  "body of a compose request": ["src/guest/files/compose.root.test.ts", "a body beyond its bound, announced or not"],
  "loopback services reached through sandbox URLs": [
    "src/guest/system/forwarder.test.ts",
    "is refused where there are as many as there may be",
  ],
  "connections to one loopback service": [
    "src/guest/system/forwarder.test.ts",
    "carries so many connections and no more",
  ],
  "concurrent requests, streams and WebSockets to a sandbox": [
    "src/edge/connection-limits.test.ts",
    "one too many to a sandbox is refused, and another is carried when one is over",
  ],
  "concurrent requests, streams and WebSockets of a team": [
    "src/edge/connection-limits.test.ts",
    "one too many to the sandboxes of a team is refused",
  ],
  "response bytes not yet read by a client": [
    "src/edge/http-volume.test.ts",
    "a client that takes nothing holds the service back",
  ],
  "HTTP/2 request bodies not yet read by services": [
    "src/edge/http2-uploads.test.ts",
    "many bodies on one connection that nobody takes are not read",
  ],
  "response head of a service": ["src/edge/proxy/exchange.test.ts", "an endless head"],
  "request head, including the URL": [
    "src/cli/slow-clients.test.ts",
    "a head that is too long, or has too many headers, is 431",
  ],
  "request headers": ["src/cli/slow-clients.test.ts", "a head that is too long, or has too many headers, is 431"],
  "time to receive a request head": [
    "src/cli/slow-clients.test.ts",
    "who sends no whole head in time is cut, however it trickles",
  ],
  "idle time of a management connection": [
    "src/cli/slow-clients.test.ts",
    "a body that trickles, an answer that nobody takes, and a connection that is silent, are cut",
  ],
};
