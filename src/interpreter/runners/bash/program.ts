/**
 * The runner of bash: a loop, in bash itself, so that cells run in a shell whose state lives on. Cells are evaluated at
 * the top and not in a function, or what they declare would be local to it.
 *
 * Its own descriptors have numbers that no script uses: 198 for requests, 196 and 197 as the pipes that it was started
 * with, where it says that a cell is over even if the cell has redirected the output of the shell.
 *
 * A cell may end the shell: by `exit`, under `set -e`, by an error that bash takes as fatal, or because it was
 * interrupted. The shell goes on in a copy of itself then, made in its last moment, with everything but its jobs. The
 * one before waits for it, so that only so many are made. Between cells, while it reads, it hears no interrupt: half a
 * request would be lost.
 */
const CONTINUATIONS_MAX = 50;

/** When there is nobody to read from, the shell ends for good. */
function read(name: string): string {
  return `IFS= builtin read -r -d "" __sandlot_${name} <&198`;
}

/** All in one line: bash adds the line at which a cell is evaluated to the lines that it names in errors. */
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
