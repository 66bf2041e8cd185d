/** Attacks 51 to 58: on header rules, on the secrets in them, and by the certificate that sandboxes trust for them. */
import type { Attack } from "./attacks.ts";

const RULES_TEST = "tests/security/egress/attacked-rules.test.ts";
const FLOW_TEST = "src/egress/program/rule-flow.test.ts";
const SECRETS_TEST = "tests/functional/secrets/secrets.test.ts";

export const ATTACKS_ON_SECRETS: readonly Attack[] = [
  {
    number: 51,
    either: true,
    name: "Header rules: `Host`, `:authority` or the server name of TLS not of one another, on the first and on later requests of a connection",
    tests: [
      [RULES_TEST, "by a Host that is not the name of the connection"],
      [RULES_TEST, "by a second request on the connection"],
      [FLOW_TEST, "a request for another host is not forwarded"],
    ],
  },
  {
    number: 52,
    either: true,
    name: "Header rules: a request that hides another one, toward the site",
    tests: [
      [RULES_TEST, "by a request that hides another one"],
      [FLOW_TEST, "trailers with the name of a rule's header end the connection"],
    ],
  },
  {
    number: 53,
    either: true,
    name: "Header rules: values with line breaks, the sandbox's own header of the same name, TRACE",
    tests: [
      [RULES_TEST, "with line breaks: the request fails"],
      [RULES_TEST, "beside a header of the same name that the sandbox sends"],
      [RULES_TEST, "from a site that echoes requests: TRACE is refused"],
    ],
  },
  {
    number: 54,
    either: true,
    name: "Header rules: DNS and hosts files that lead elsewhere, names that lead to closed addresses, redirects to other names",
    tests: [
      [RULES_TEST, "by DNS or a hosts file that leads elsewhere: the relay resolves the name itself"],
      [RULES_TEST, "by a name that leads to a closed address"],
      [RULES_TEST, "by a redirect to another name"],
    ],
  },
  {
    number: 55,
    either: true,
    name: "Header rules: a site with a certificate of other names, or one that has expired",
    tests: [
      [RULES_TEST, "by a name whose site has a certificate for other names"],
      [FLOW_TEST, "a site that cannot be trusted or reached is a 502 with the reason, and one line in the log"],
    ],
  },
  {
    number: 56,
    either: true,
    name: "Header rules: thousands of names, the relay killed under a request, a pause with an open connection",
    tests: [
      [RULES_TEST, "many names below a wildcard exhaust the certificates of this sandbox, and of no other"],
      [RULES_TEST, "an open connection breaks with a pause and with the relay, and the next request has the header"],
    ],
  },
  {
    number: 57,
    either: true,
    name: "Secrets: another team's, and a search of files, memory, environments, /proc and responses by root inside",
    tests: [
      [RULES_TEST, "a rule of another team that names the secret gets no value"],
      [SECRETS_TEST, "finds a value that was given to it, and never a secret that it used"],
    ],
  },
  {
    number: 58,
    either: true,
    name: "The certificate of header rules: links and files of the image that mislead the guest, and sandboxes without rules that trust it",
    tests: [
      ["src/guest/system/rule-trust.test.ts", "a link in place of the collected copy, and of its folder"],
      [
        "src/guest/system/rule-trust.test.ts",
        "a bundle that is no bundle, outside of the system's folders, a pipe or a loop",
      ],
      [
        "tests/functional/host/rule-trust.test.ts",
        "is trusted through pause and copies with rules, and not in copies without",
      ],
    ],
  },
];
