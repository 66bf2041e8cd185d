# Text that is typed may have letters beyond ASCII.
export LANG="${LANG:-C.UTF-8}"
# Where programs of one user find each other, such as the bus of the session, from whatever shell they are started.
export XDG_RUNTIME_DIR="/tmp/runtime-${LOGNAME:-user}"
[ -d "$XDG_RUNTIME_DIR" ] || mkdir -m 700 "$XDG_RUNTIME_DIR" 2>/dev/null
