/**
 * The bash runner: a loop in bash itself, so that all cells run in one shell and share its state. Cells are evaluated
 * at the top level, because declarations in a function would be local to it.
 *
 * Its descriptors have numbers that scripts do not use: 198 for requests, 196 and 197 for its initial output pipes.
 * There it reports the end of a cell even if the cell has redirected the shell's output.
 *
 * A cell may end the shell: by `exit`, under `set -e`, by a fatal error of bash, or by an interrupt. The shell then
 * continues in a copy of itself, forked in its exit trap, with everything but its jobs. The old shell waits for the
 * copy, so the number of copies is limited. While it reads between cells, the shell ignores interrupts, because they
 * would lose half a request.
 */
const CONTINUATIONS_MAX = 50;

/** At the end of the pipe the shell exits for good. */
function read(name: string): string {
  return `IFS= builtin read -r -d "" __sandlot_${name} <&198`;
}

/** All in one line: bash adds the line at which a cell is evaluated to the line numbers in its errors. */
const LOOP = [
  `builtin trap "$__sandlot_exit" EXIT`,
  `__sandlot_done`,
  `while { ${["number", "kind", "code"].map(read).join(" && ")}; } || ! builtin trap - EXIT`,
  `do if [[ $__sandlot_kind == file ]]`,
  `then __sandlot_kind=cell; IFS= builtin read -r -d "" __sandlot_code <"$__sandlot_code"`,
  `fi`,
  `builtin trap "exit 130" INT`,
  `__sandlot_before`,
  `builtin eval "$__sandlot_code"`,
  `{ __sandlot_last=$?; builtin trap "" INT; builtin set +exv; } 2>/dev/null`,
  `if [[ $__sandlot_kind == cell ]]; then __sandlot_status=$__sandlot_last; fi`,
  `__sandlot_done`,
  `done`,
];

const AT_EXIT = [
  `{ __sandlot_last=$?; __sandlot_status=$__sandlot_last; builtin trap "" INT; builtin set +exv; } 2>/dev/null`,
  `if ((BASH_SUBSHELL < ${CONTINUATIONS_MAX})); then (builtin eval "$__sandlot_loop"); fi`,
];

const DONE_ERRORS = String.raw`builtin printf '\x1e%s:{"done":%d}\x1f' "$__sandlot_token" "$__sandlot_number" >&197`;
const DONE_OUTPUT = String.raw`builtin printf '\x1e%s:{"done":%d,"status":%d}\x1f' "$__sandlot_token" "$__sandlot_number" "$__sandlot_last" >&196`;

export const BASH_PROGRAM = [
  `builtin trap "" INT`,
  `exec 196>&1 197>&2 198<&3 3<&-`,
  `IFS= builtin read -r __sandlot_token <&198`,
  `__sandlot_number=0 __sandlot_kind= __sandlot_code= __sandlot_status=0 __sandlot_last=0`,
  `__sandlot_done() { ${DONE_ERRORS}; ${DONE_OUTPUT}; }`,
  `__sandlot_before() { return "$__sandlot_status"; }`,
  `__sandlot_loop='${LOOP.join("; ")}'`,
  `__sandlot_exit='${AT_EXIT.join("; ")}'`,
  `builtin eval "$__sandlot_loop"`,
].join("; ");
