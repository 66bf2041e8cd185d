/** Attacks 20 to 49: on the server's file operations, on networks, between teams, and on data that must survive. */
import type { Attack } from "./attacks.ts";

const ISOLATION_TEST = "tests/security/isolation.ts";
const RESTORED = "tests/security/restored-isolation.test.ts";
const NETWORK = "tests/security/network-isolation.ts";
const NAMES = "tests/security/egress/names.test.ts";
const FETCH = "tests/functional/host/fetch-image.test.ts";
const ARCHIVES = "src/guest/programs/hostile-archives.root.test.ts";
const SWAPS = "tests/security/attacks/swapped-places.ts";
const RUNSC = "tests/functional/isolation/runsc.test.ts";
const COPIES = "tests/functional/host/fresh-copies.test.ts";

const FILES: Attack[] = [
  {
    number: 20,
    either: true,
    name: "Links that lead the server out of a sandbox or a volume",
    tests: [
      [ISOLATION_TEST, "symlinks resolve inside the sandbox for every reader"],
      ["src/sandbox/volume/content.root.test.ts", "no path leaves the volume"],
    ],
  },
  {
    number: 21,
    name: "Links and folders swapped during an operation",
    tests: [
      [SWAPS, "is not led out of the volume by swapped folders and links"],
      [SWAPS, "opens no pipe, even one swapped in for a file at that moment, and does not block"],
      ["tests/security/hostile-volume.test.ts", "a reader of a volume"],
    ],
    behindRunsc: [["tests/functional/isolation/runsc-volumes.test.ts", "reads of a volume under attack"]],
  },
  {
    number: 22,
    either: true,
    name: "Entries of archives and layers: outside paths, links, devices, capabilities, whiteouts, long and double names",
    tests: [
      [ARCHIVES, "there are at least fifty"],
      [FETCH, "stay within the image"],
      [FETCH, "with %s are refused"],
      [
        "src/builder/registry/fuzz.test.ts",
        "a manifest is an image of bounded size, refers to another, or is rejected",
      ],
    ],
  },
  {
    number: 23,
    either: true,
    name: "Archives that write through links, or as another user",
    tests: [
      [ARCHIVES, "refused: "],
      [ARCHIVES, "harmless: "],
    ],
  },
  {
    number: 24,
    either: true,
    name: "Ids, names, tags and hashes with `../`, NUL, line ends or `%2f` in them",
    tests: [
      ["src/control/hostile-names.test.ts", "no hostile name finds anything"],
      ["src/control/builds/uploads.test.ts", "the hash %s"],
      ["src/control/lifecycle/sandbox-end.test.ts", "id %p is a 400"],
      ["src/control/http/dispatch.test.ts", "a segment is decoded once, after the path was split"],
    ],
  },
  {
    number: 25,
    either: true,
    name: "Volumes mounted over /proc, /sys, the guest or each other, set-id programs and devices on them",
    tests: [
      ["src/control/volumes/volumes.test.ts", "at %j: %j"],
      [
        "tests/functional/volumes/sandbox-mounts.test.ts",
        "one error lists all invalid mounts, and no sandbox is created",
      ],
      ["tests/security/hostile-volume.test.ts", "the isolation of a mount"],
    ],
  },
  {
    number: 26,
    name: "Checkpoints that were changed, or come from a tenant",
    tests: [
      ["src/sandbox/checkpoint/image-files.test.ts", "%s with a changed bit is rejected"],
      ["tests/functional/host/pause.test.ts", "of a damaged checkpoint is rejected"],
    ],
    behindRunsc: [[RUNSC, "a sandbox outlives a killed server; the next server serves it and removes all of it"]],
    open: "a checkpoint is hashed against corruption, not signed: only root can write to the data folder",
  },
];

const NET: Attack[] = [
  {
    number: 27,
    behindBoth: true,
    name: "Metadata services of clouds: by address, by name, by IPv6, by a name that changes, from builds",
    tests: [
      [NETWORK, "private networks, metadata services and the machine's LAN are closed to all, over every protocol"],
      [NETWORK, "a name that resolves to a metadata service is not reached"],
      [NAMES, "is not reached: %s"],
      [NAMES, "in a second DNS answer is not reached"],
      [FETCH, "in a private network is reached only if the operator allows it"],
    ],
  },
  {
    number: 28,
    behindBoth: true,
    name: "The machine, its server, its loopback, its networks",
    tests: [
      [NETWORK, "this machine and the server are closed under all addresses"],
      [NETWORK, "the relay's address does not answer on the machine's other interfaces"],
      ["tests/security/listening-sockets.test.ts", "another machine reaches only the TLS listener"],
    ],
  },
  {
    number: 29,
    behindBoth: true,
    name: "Neighbours: their addresses, spoofed sources, raw packets, IPv6, all connections of the machine",
    tests: [
      [NETWORK, "a neighbour is closed to sandboxes, although the server reaches it"],
      [NETWORK, "IPv6 reaches only the sandbox itself"],
      [NETWORK, "root inside cannot change the network"],
      ["tests/security/egress/tightening.test.ts", "an ended sandbox leaves no rule for the next one with its address"],
    ],
  },
  {
    number: 30,
    name: "Bypassing rules: before the first packet, after a resume, by other DNS, by different names in TLS and HTTP, by IPv6, ICMP and UDP, by earlier connections",
    tests: [
      [NAMES, "are not reached by two Hosts, an absolute target, or a folded Host"],
      [NAMES, "stay out of reach with a hosts file: the relay resolves names itself"],
      [NAMES, "no other port, UDP, ping, IPv6 or foreign name server answers"],
      ["tests/security/egress/tightening.test.ts", "are cut by rules that deny their destination"],
      ["tests/security/egress/life.test.ts", "the last update of the rules holds after a pause"],
      [RESTORED, "a fork, and a sandbox resumed twice, without internet access have none"],
      ["src/egress/program/smuggling.test.ts", "no request for a denied host gets through"],
    ],
    behindRunsc: [["tests/functional/isolation/runsc-network.test.ts", "is bound by its network rules"]],
  },
  {
    number: 31,
    either: true,
    name: "The edge as an entry: hosts, ports, absolute targets, CONNECT, smuggled requests, control paths",
    tests: [
      ["src/edge/front/raw-requests.test.ts", "a request whose length is ambiguous is refused and not forwarded"],
      ["src/edge/front/raw-requests.test.ts", "an absolute target reaches only the sandbox of the Host"],
      ["src/edge/routing/sandbox-address.test.ts", "a sandbox address is invalid"],
      [
        "tests/functional/sandboxes/sandbox-url-refusals.test.ts",
        "%s is 404 for every method, with the token or without",
      ],
      ["src/edge/fuzz.test.ts", "a host name or a pair of headers is a sandbox id and a port, or neither"],
      ["src/edge/fuzz.test.ts", "no spelling of a path reaches the control channel"],
    ],
  },
  {
    number: 32,
    either: true,
    name: "Traffic tokens and signed links: changed, old, of another sandbox, guessed",
    tests: [
      ["src/edge/routing/traffic-token.test.ts", "a request to a port of a private sandbox"],
      ["tests/functional/runtime/file-urls.test.ts", "a changed link is rejected"],
      ["tests/functional/runtime/file-urls.test.ts", "a link to one sandbox is rejected by others"],
      [
        "src/control/access/signed-links.test.ts",
        "a client that guesses too often must wait for the window, others need not",
      ],
      ["src/edge/fuzz.test.ts", "a signed link is valid, or an ordinary request"],
    ],
  },
  {
    number: 33,
    either: true,
    name: "Webhooks and image pulls to private addresses, directly or by a name that changes",
    tests: [
      [
        "src/control/webhooks/webhook-post.test.ts",
        "rejects a name with a private address, even if it also has a public one",
      ],
      ["src/control/webhooks/webhook-post.test.ts", "resolves the name once and connects to the checked address"],
      ["src/control/webhooks/webhook-post.test.ts", "does not follow a redirect"],
      [FETCH, "in a private network is reached only if the operator allows it"],
    ],
  },
  {
    number: 34,
    either: true,
    name: "Unbounded outgoing connections and traffic",
    tests: [
      [
        "src/sandbox/network/ruleset.test.ts",
        "closes every closed range, the machine's networks and other sandboxes, whatever a policy allows",
      ],
      [
        "tests/security/alone/sandbox-quotas.test.ts",
        "connections to the outside are bounded, and the neighbour has its own",
      ],
    ],
    open: "mail ports are open by default; close them with rules",
  },
];

const TENANCY: Attack[] = [
  {
    number: 35,
    either: true,
    name: "Sandboxes, templates, snapshots, volumes, builds, logs and metrics of another team",
    tests: [
      [
        "src/control/templates/foreign-template.test.ts",
        "DELETE of another team's id, public or not, gets the response for an unknown id",
      ],
      ["src/control/volumes/volumes.test.ts", "of another team cannot be read, deleted, mounted or opened"],
      ["src/control/builds/builds.test.ts", "find neither the template nor its builds"],
      ["src/control/tenancy.test.ts", "with the keys of another team"],
      ["src/control/tenancy.test.ts", "without a valid key"],
    ],
  },
  {
    number: 36,
    either: true,
    name: "Keys from the store, revoked keys, endpoints without a key",
    tests: [
      ["src/control/access/authentication.test.ts", "is listed masked, with its last use, and stored only as a hash"],
      ["src/control/access/authentication.test.ts", "is rejected as soon as it is revoked"],
      ["src/control/access/authentication.test.ts", "every route without an exemption needs authentication"],
      [
        "tests/security/listening-sockets.test.ts",
        "every socket is on loopback, on the gateway, or is the TLS listener",
      ],
    ],
  },
  {
    number: 37,
    either: true,
    name: "Secrets in logs, arguments, errors, checkpoints and the environment of sandboxes",
    tests: [
      [
        "src/control/http/dispatch.test.ts",
        "has one line for each request with caller, route and status, and no secret",
      ],
      ["src/control/lifecycle/private-sandbox.test.ts", "is in no list, read, log line or event"],
      ["src/builder/registry/tool-error.test.ts", "no secret is passed on, in any encoding"],
      [COPIES, "their checkpoint contains no control secret"],
      [ISOLATION_TEST, "the guest's folder is read-only and its secret is not in any process of the user"],
      [
        "tests/security/alone/secrets.test.ts",
        "no secret is in a response, an error, a list, or a log of a sandbox or build",
      ],
      [
        "tests/security/alone/secrets.test.ts",
        "no secret is in the arguments or environment of a process that was not given it",
      ],
      ["tests/security/alone/secrets.test.ts", "each secret is only in the files that need it, readable by root"],
    ],
  },
  {
    number: 38,
    name: "Tokens and secrets of the original in a fork or a copy",
    tests: [
      [COPIES, "have their own control secrets and reject the original's"],
      [COPIES, "reject the original's token"],
      [
        "src/control/lifecycle/private-sandbox.test.ts",
        "differs in a copy; a create from a snapshot chooses whether it is private",
      ],
    ],
    behindRunsc: [[RUNSC, "a fork and sandboxes of a snapshot continue from its state independently"]],
  },
  {
    number: 39,
    either: true,
    name: "Builds: their isolation, their cache, layers of another team",
    tests: [
      ["src/builder/layer-key.test.ts", "every difference of owner, base, disk, step or files changes the key"],
      ["tests/functional/host/build.test.ts", "run again for another owner, another disk size, or with force"],
      ["tests/functional/host/build.test.ts", "a step that replaces the guest fails its own build only"],
      ["tests/functional/host/fetched-blobs.test.ts", "a cached blob is found for its own repository only"],
    ],
  },
  {
    number: 40,
    either: true,
    name: "Files of shared layers changed through a kernel vulnerability; merged pages; sibling threads",
    tests: [
      ["src/setup/doctor/isolation-checks.test.ts", "processor vulnerabilities are reported"],
      [
        "tests/security/alone/shared-memory.test.ts",
        "equal pages of its sandboxes are merged, those of an outsider are not",
      ],
      ["tests/security/alone/shared-memory.test.ts", "a program cannot join the group by itself"],
    ],
    open: "layers are not verified: a vulnerability that writes to the page cache of a template's files affects all its sandboxes until the pages are evicted",
  },
];

const RELIABILITY: Attack[] = [
  {
    number: 41,
    name: "kill -9 of the server, the runtime, CRIU and the guest at each step of create, pause, resume, fork, build and kill",
    tests: [
      ["tests/chaos/chaos.test.ts", "accidents: every loss is reported, nothing is left"],
      ["tests/chaos/killed-builds.test.ts", "builds whose server is killed"],
      [
        "tests/functional/restart/adoption.test.ts",
        "a server killed during creates leaves only the sandboxes that it had returned",
      ],
    ],
    behindRunsc: [["tests/chaos/chaos.test.ts", "accidents: every loss is reported, nothing is left"]],
  },
  {
    number: 42,
    name: "A power cut around a pause",
    tests: [["tests/chaos/crash.test.ts", "a pause that returned survives a crash of the machine right after it"]],
    behindRunsc: [
      ["tests/chaos/crash.test.ts", "a pause that returned survives a crash of the machine right after it"],
    ],
  },
  {
    number: 43,
    either: true,
    name: "A full disk, a clock jump, an unreachable registry or DNS server, two servers on one data folder",
    tests: [
      ["tests/chaos/full-disk.test.ts", "changes of a sandbox's state are still recorded"],
      ["src/control/lifecycle/clock-jump.test.ts", "back and forth again: no effect"],
      [FETCH, "a registry that does wrong"],
      [
        "tests/functional/restart/side-by-side.test.ts",
        "a second server on the same data folder or port fails, and the first runs on",
      ],
    ],
    open: "a Postgres failover during a change is not tested",
  },
  {
    number: 44,
    name: "Memory or files that differ after one of many pauses",
    tests: [["tests/chaos/memory-proof.test.ts", "memory and files are the same after each of"]],
    behindRunsc: [["tests/chaos/memory-proof.test.ts", "memory and files are the same after each of"]],
  },
  {
    number: 45,
    name: "Storms of kill, pause, resume, connect and timeouts on one sandbox",
    tests: [
      ["tests/chaos/storm.test.ts", "a storm on the real machine: every answer allowed, nothing stuck, lost or leaked"],
      ["src/control/lifecycle/storm.test.ts", "one winner each, nothing stuck, lost or leaked"],
    ],
    behindRunsc: [
      ["tests/chaos/storm.test.ts", "a storm on the real machine: every answer allowed, nothing stuck, lost or leaked"],
    ],
  },
  {
    number: 46,
    name: "A lost machine that comes back while its sandboxes run elsewhere",
    notApplicable: "a server has one machine; a second server on its data folder does not start",
  },
  {
    number: 47,
    name: "Slow clients: uploads and downloads that stall, streams half closed, a command followed again",
    tests: [
      ["src/edge/front/silence.test.ts", "a late response, a pausing response and a pausing upload arrive complete"],
      [
        "tests/functional/sandboxes/impatient-clients.test.ts",
        "a command runs on when its client disconnects, and clients can follow it again",
      ],
      ["tests/functional/volumes/volume-content.test.ts", "an abandoned download does not delay the next ones"],
      ["src/cli/server/slow-clients.test.ts", "a connection without a complete head in time is closed"],
    ],
    behindRunsc: [[RUNSC, "leaves a command running when its client disconnects, and lets clients follow it again"]],
    open: "ten GiB over hours are not tested",
  },
  {
    number: 48,
    either: true,
    name: "Clients of other versions, unknown fields",
    tests: [
      ["src/control/sdk.test.ts", "the JS SDK"],
      ["tests/functional/sandboxes/sdk-on-node.test.ts", "commands, files, terminals and watchers work"],
    ],
    open: "earlier versions of the JavaScript clients are run by `npm run matrix` only, and no Python client",
  },
  {
    number: 49,
    either: true,
    name: "Floods of the edge: tiny chunks and frames, endless messages, slow readers, hostile JSON",
    tests: [
      ["tests/security/alone/floods.test.ts", " neither delay other clients nor fill memory"],
      [
        "src/edge/front/http2-uploads.test.ts",
        "unread bodies of one connection are not buffered, and arrive complete later",
      ],
    ],
  },
  {
    number: 50,
    either: true,
    name: "The login: forms, cookies and scripts of sandbox pages, other return addresses, forged and used tokens, floods",
    open: "a page of a sandbox can set too many cookies for the domain; a flood from many networks blocks passwords in browsers that have not signed in before",
    tests: [
      [
        "src/edge/proxy/own-address.test.ts",
        "a response of another port, named in a header, is cached for that sandbox and port only",
      ],
      ["src/control/login/login-pages.test.ts", "takes no form of %s, even with the right cookie"],
      ["src/control/login/login-pages.test.ts", "never returns to %j"],
      ["src/control/login/login-pages.test.ts", "is no access token, and the other way round"],
      ["src/control/login/login-pages.test.ts", "is replaced by each use; a second use ends the login"],
      [
        "src/control/login/login-pages.test.ts",
        "works in a browser that signed in before, whatever others try; there it has a budget too",
      ],
      ["src/control/access/passwords.test.ts", "one password is checked at a time, few wait, and one more is refused"],
      [
        "src/control/login/oidc-login.test.ts",
        "cannot be finished by another browser, twice, later, or with another code",
      ],
    ],
  },
];

export const ATTACKS_ON_SERVER: readonly Attack[] = [...FILES, ...NET, ...TENANCY, ...RELIABILITY];
