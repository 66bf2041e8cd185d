"""
The process that Python kernels are forked from. It has loaded what every kernel loads, which takes seconds, and has
neither a thread nor a socket of its own, which no fork would copy. So a kernel starts in a fraction of a second, and
kernels have most of their memory in common until they change it.

The server asks for a kernel by a line of JSON on standard input: `for`, `folder` and `argv`. The kernel itself answers
on standard output with `for` and its `pid`, once it leads a session of its own; this process with `for` and a `fault`,
if there can be no more, and with `ended` and the pid of a kernel that is gone. It ends with its input, and kernels end
with it.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import json
import mmap
import os
import select
import signal
import sys
import warnings
from types import SimpleNamespace
from typing import Any

PR_SET_PDEATHSIG = 1
#: As ipykernel sets it when a kernel starts; matplotlib looks at it when it is loaded.
BACKEND = "module://matplotlib_inline.backend_inline"
#: As jedi sets it when it is loaded, which cells of the original rely on.
RECURSION_LIMIT = 3000
#: As Python's allocator takes memory from the system.
ARENA_BYTES = 1 << 20


def main() -> None:
    os.environ["MPLBACKEND"] = BACKEND
    _load()
    sys.setrecursionlimit(RECURSION_LIMIT)
    # What loading has freed is not copied into every sandbox.
    ctypes.CDLL(None).malloc_trim(0)
    # Kernels do not look through what they share when they collect garbage: to mark it would be to copy it.
    gc.freeze()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    # A restore shares only mappings that have the same bounds in all kernels. This one takes the place of the next
    # arena, which would extend the last one.
    with mmap.mmap(-1, ARENA_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0):
        _serve(woken, wake)


def _load() -> None:
    # pandas asks it when it is loaded, and lays frames out for a terminal where there is none.
    builtins.get_ipython = lambda: SimpleNamespace(kernel=None)
    try:
        _load_packages()
    finally:
        del builtins.get_ipython


def _load_packages() -> None:
    # IPython would load it to complete code, which clients cannot ask for. Cells can still import it.
    sys.modules["jedi"] = None
    import ipykernel.kernelapp  # noqa: F401

    del sys.modules["jedi"]

    from . import images, messages, output, shows, warm  # noqa: F401

    steps = (warm.load_matplotlib, warm.load_pandas, warm.load_network, warm.load_tracebacks, warm.load_debugger)
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001: packages may be broken in any way; a kernel tells it when it starts
            print(f"the seed goes without a part of its set-up: {error!r}", file=sys.stderr)


def _serve(woken: int, wake: int) -> None:
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    waiting.register(woken, select.POLLIN)
    seed = os.getpid()
    rest = b""
    while True:
        ready = dict(waiting.poll())
        if woken in ready:
            os.read(woken, 4096)
            _reap()
        if 0 not in ready:
            continue
        piece = os.read(0, 65536)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            request = json.loads(line)
            try:
                pid = _fork()
            except OSError as error:
                _say({"for": request["for"], "fault": str(error)})
                continue
            if pid == 0:
                os.close(woken)
                os.close(wake)
                _become_kernel(request, seed)
                return


def _fork() -> int:
    """Threads of libraries for linear algebra are no reason to warn: they are made anew in a copy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _reap() -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _say({"ended": pid})


def _say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def _become_kernel(request: dict[str, Any], seed: int) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != seed:
        os._exit(1)
    _say({"for": request["for"], "pid": os.getpid()})
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    os.chdir(request["folder"])
    sys.argv = ["ipykernel_launcher", *request["argv"]]
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()


if __name__ == "__main__":
    main()
