/** For each limit of docs/limits.md the test that reaches it: the file, and the words by which it is found there. */

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
  "volumes that are mounted": ["src/control/volumes/volumes.test.ts", "of more than a sandbox may have are refused"],
  "lines that are kept of a log": [
    "src/control/chronicle/sandbox-logs.test.ts",
    "a log is bounded in lines and bytes; the oldest go",
  ],
  "changes of network rules that wait for each other": [
    "src/control/lifecycle/egress-changes.test.ts",
    "those that would wait too long are told so",
  ],
  "sandboxes that run at once": [
    "tests/functional/sandboxes/team-limits.test.ts",
    "no more sandboxes at once than allowed: the client's RateLimitError, and 429 for traffic that would wake one",
  ],
  "length of a run": ["tests/functional/sandboxes/team-limits.test.ts", "no run longer than allowed"],
  "requests that read": [
    "src/control/access/request-rates.test.ts",
    "sends ten seconds' worth at once, then hears when to come again, and may",
  ],
  "requests that change something": [
    "src/control/access/request-rates.test.ts",
    "has a budget of its own for what changes something, and no other team's",
  ],
  "requests about files of volumes": [
    "src/control/access/request-rates.test.ts",
    "has another budget for the files of its volumes",
  ],
  "builds of a team at once": [
    "src/control/builds/build-ends.test.ts",
    "are never all one team's where there is another, unless the operator allows it",
  ],
  "time until a build is started": [
    "src/control/builds/build-ends.test.ts",
    "are kept while files are uploaded, also over a restart, for two hours at most",
  ],
  "builds that wait": ["src/control/builds/build-ends.test.ts", "in the line are bounded per team, started or not"],
  "uploads for builds at once": [
    "src/control/builds/uploads.test.ts",
    "so many at once are a team's, and one too many is told to come again",
  ],
  "uploads for builds that are kept": [
    "src/control/builds/uploads.test.ts",
    "what a team keeps is bounded in number and in bytes",
  ],
  volumes: [
    "src/control/volumes/volumes.test.ts",
    "have names that are unique in the team, of which there are only so many",
  ],
  "volumes whose files are worked on at once": [
    "src/control/volumes/content-places.test.ts",
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
  webhooks: ["src/control/chronicle/events.test.ts", "are the team's own, and bounded in number"],
  "deliveries of a webhook that wait": [
    "src/control/chronicle/events.test.ts",
    "beyond what may wait are recorded as failed, not sent",
  ],
  "lines of all logs of a team": [
    "src/control/chronicle/sandbox-logs.test.ts",
    "a team that floods is held back, another is not",
  ],
  "requests without a valid key": [
    "src/control/access/request-rates.test.ts",
    "has a budget for his address, whatever he asks; a valid key is heard from there all the same",
  ],
  "signed links that no sandbox has signed": [
    "src/control/access/signed-links.test.ts",
    "who guesses too often waits, others do not, and after the window it may try again",
  ],
  "JSON bodies that are under way": ["src/control/http/request-body.test.ts", "of one team are held up to its bound"],
  "JSON bodies of all teams that are under way": [
    "src/control/http/request-body.test.ts",
    "of all teams are held up to one bound",
  ],
  "bytes of JSON bodies": [
    "src/control/http/request-body.test.ts",
    "a team that sends more than its bytes each second",
  ],
  "body of a request": ["src/control/http/request-body.test.ts", "has at most 1 MiB"],
  "body of a request to create a sandbox or start a build": [
    "src/control/http/request-body.test.ts",
    "of exactly 4 MiB creates a sandbox",
  ],
  "time for a body to arrive": ["src/control/http/request-body.test.ts", "that does not arrive in time"],
  "values in a body": ["src/control/http/request-body.test.ts", "has at most so many values"],
  "levels of a body": ["src/control/http/request-body.test.ts", "has at most so many levels"],
  "entries of metadata": ["src/control/lifecycle/create.test.ts", "metadata must have at most 256 entries, got 257"],
  "key of metadata": [
    "src/control/lifecycle/create.test.ts",
    "metadata must have keys of at most 256 characters, got one of 257",
  ],
  "metadata in all": [
    "src/control/lifecycle/create.test.ts",
    "metadata must hold at most 65536 bytes of keys and values, got 65537",
  ],
  "a variable": [
    "src/control/lifecycle/create.test.ts",
    "envVars.V must take at most 131072 bytes as NAME=VALUE with a NUL, got 131073",
  ],
  "variables in all": [
    "src/control/lifecycle/create.test.ts",
    "envVars must take at most 1048576 bytes together, got 1100045",
  ],
  "`mcp` of a create": ["src/control/lifecycle/create.test.ts", "mcp must have at most 65536 bytes as JSON, got 80013"],
  "entries of a network list": [
    "src/control/routes/network-fields.test.ts",
    "must have at most 1000 entries, got 1001",
  ],
  "copies of a fork": ["src/control/templates/snapshot.test.ts", "[{ count: 101 }]"],
  "entries of a page": ["src/control/lists/sandbox-list.test.ts", "limit=101"],
  "size of a volume": ["src/control/volumes/volumes.test.ts", "sizeMB: 102_401"],
  "builds at once": [
    "src/control/builds/build-ends.test.ts",
    "are for two builds at once; the others wait, and say so",
  ],
  "steps of a build": ["src/control/builds/build-steps.test.ts", "more steps than the bound"],
  "argument of a step": ["src/control/builds/build-steps.test.ts", "STEP_ARGUMENT_MAX_BYTES + 1"],
  "log of a build": ["src/control/builds/build-log.test.ts", "has a bound, and says when it is reached"],
  "one upload for a build": ["src/control/builds/uploads.test.ts", "what is too large without having said so"],
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
  "what waits in netlink and ping sockets, unsent in UDP": [
    "tests/security/uncounted-memory.test.ts",
    "a sandbox that leaves too much unread in %s sockets is ended, and told why",
  ],
  "signals and timers that wait during a pause": [
    "tests/security/hostile-pause.test.ts",
    "signals and timers wait in this sandbox",
  ],
  "deleted files that are open during a pause": [
    "tests/security/hostile-pause.test.ts",
    "what would take long to write, or could not be, is refused at once and goes on",
  ],
  "bandwidth to a sandbox, and from it": [
    "tests/security/throttled-sandboxes.test.ts",
    "what goes to a sandbox, comes from it, and passes its disk is bounded in each second",
  ],
  "throughput of a sandbox's disk, to read and to write": [
    "tests/security/throttled-sandboxes.test.ts",
    "what goes to a sandbox, comes from it, and passes its disk is bounded in each second",
  ],
  "connections to the outside": [
    "tests/security/sandbox-quotas.test.ts",
    "connections to the outside are bounded, and the neighbour has its own",
  ],
  "connections that are relayed by name": [
    "src/host/relay/program/relay-limits.test.ts",
    "a sandbox has so many connections and no more; one that ends makes room",
  ],
  "new connections that are relayed by name": [
    "src/host/relay/program/relay-limits.test.ts",
    "a flood of new connections waits for its turn, and holds up nobody else",
  ],
  "time until a relayed connection says whom it is for": [
    "src/host/relay/program/relay-limits.test.ts",
    "who does not say in time whom it is for is cut, however it dawdles",
  ],
  "questions to the name server": [
    "tests/functional/host/dns-relay.test.ts",
    "a sandbox has so many questions at once, and what relays connections for all of them has more",
  ],
  "connections to the name server": [
    "tests/functional/host/dns-relay.test.ts",
    "one sandbox has a few connections at once, and its neighbours have theirs",
  ],
  "lines of a sandbox's log": [
    "src/host/guest-link/guest-journal.test.ts",
    "that floods is cut off, and the server does not grow by it",
  ],
  "memory that a pause writes": [
    "tests/security/hostile-pause.test.ts",
    "memory that many processes share is not written over and over until the disk is full",
  ],
  "free room on the machine's disk": [
    "tests/functional/host/layers.test.ts",
    "a build that has no room for what it wrote fails, says so, and leaves nothing",
  ],
  "time of a build": ["tests/functional/host/build.test.ts", "a build that takes too long is ended"],
  "time until a start command is ready": ["tests/functional/host/start-command.test.ts", "when it never is ready"],
  "variables of a build": ["src/host/build/build-context.test.ts", "all variables together are bounded"],
  "layers of an image": [
    "src/host/registry/manifest.test.ts",
    "what is no image, or too large a one, is refused with the reason",
  ],
  "size of an image as it is fetched": [
    "src/host/registry/manifest.test.ts",
    "what is no image, or too large a one, is refused with the reason",
  ],
  "templates that are built on one another": [
    "src/host/image/images.root.test.ts",
    "can be stacked on only so many others, and a build is told what to do",
  ],
  "entries of a list of a volume": [
    "src/host/volume/content.root.test.ts",
    "with more than can be told are refused, and so are removed as any",
  ],
  "processes of ordinary users": [
    "tests/security/machine-limits.test.ts",
    "beyond each bound a program of %s gets the error that is published",
  ],
  "clients that listen to one process": [
    "src/guest/process/listening.root.test.ts",
    "are so many and no more; one that leaves makes room",
  ],
  "output that a client has not taken": [
    "src/guest/process/listening.root.test.ts",
    "hold the process back on %s while one is slow, and lose nothing",
  ],
  "time in which a client takes no output": [
    "src/guest/process/listening.root.test.ts",
    "that takes nothing is dropped, and told why",
  ],
  "input that a process has not read": ["src/guest/process/stdin.root.test.ts", "that waits to be read is bounded"],
  "watches of folders": [
    "src/guest/filesystem/watching/watching-limits.root.test.ts",
    "and streams are limited in number",
  ],
  "watches that are polled": [
    "src/guest/filesystem/watching/watching-limits.root.test.ts",
    "and streams are limited in number",
  ],
  "events of a watch that a client has not taken": [
    "src/guest/filesystem/watching/watching-limits.root.test.ts",
    "end the watching, stream or polled, and the daemon stays small",
  ],
  "message of an RPC": [
    "src/guest/rpc/rpc.root.test.ts",
    "a message beyond the bound is refused before it is received",
  ],
  "JSON of an RPC outside of its strings": [
    "src/guest/rpc/broken-requests.root.test.ts",
    "has a little in very many places",
  ],
  "entries of a list": ["src/guest/tree/tree.test.ts", "more entries than can be told are refused"],
  "path of a file": ["src/guest/long-paths.root.test.ts", "a path that is too long"],
  "files of one upload": ["src/guest/files/multipart.test.ts", "with parts without end is refused"],
  "header of a part of an upload": ["src/guest/files/multipart.test.ts", "with an endless header is refused"],
  "key of a file's metadata": ["src/guest/files/file-metadata.root.test.ts", "a key of 246 bytes is the longest"],
  "metadata of a file": [
    "src/guest/files/file-metadata.root.test.ts",
    "4096 bytes with nine for each key are the most",
  ],
  "parts of a composed file": ["src/guest/files/compose.root.test.ts", "too many sources"],
  "body of a request to compose": ["src/guest/files/compose.root.test.ts", "a body beyond its bound, announced or not"],
  "services on loopback addresses that are reached from outside": [
    "src/guest/system/forwarder.test.ts",
    "is refused where there are as many as there may be",
  ],
  "connections to one service on a loopback address": [
    "src/guest/system/forwarder.test.ts",
    "carries so many connections and no more",
  ],
  "requests, streams and WebSockets to a sandbox": [
    "src/edge/connection-limits.test.ts",
    "one too many to a sandbox is refused, and another is carried when one is over",
  ],
  "requests, streams and WebSockets to all sandboxes of a team": [
    "src/edge/connection-limits.test.ts",
    "one too many to the sandboxes of a team is refused",
  ],
  "answer that a client has not taken": [
    "src/edge/http-volume.test.ts",
    "a client that takes nothing holds the service back",
  ],
  "bodies on one HTTP/2 connection that services have not taken": [
    "src/edge/http2-uploads.test.ts",
    "many bodies on one connection that nobody takes are not read",
  ],
  "head of a service's answer": ["src/edge/carriage.test.ts", "an endless head"],
  "head of a request, its URL included": [
    "src/cli/slow-clients.test.ts",
    "a head that is too long, or has too many headers, is 431",
  ],
  "headers of a request": ["src/cli/slow-clients.test.ts", "a head that is too long, or has too many headers, is 431"],
  "time until the head of a request is there": [
    "src/cli/slow-clients.test.ts",
    "who sends no whole head in time is cut, however it trickles",
  ],
  "silence between client and management interface": [
    "src/cli/slow-clients.test.ts",
    "a body that trickles, an answer that nobody takes, and a connection that is silent, are cut",
  ],
};
