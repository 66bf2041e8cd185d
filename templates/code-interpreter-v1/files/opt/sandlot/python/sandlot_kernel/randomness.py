"""
New seeds after a copy of this process was made: by a snapshot, a fork, or a template's memory. Without them all copies
draw the same numbers. `os.urandom`, and with it `secrets` and `uuid4`, asks the system each time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

_SEED_BYTES = 64


def reseed() -> None:
    """Only what is loaded: a module that is imported later draws its seed then. One that fails holds no other up."""
    steps: dict[str, Callable[[Any], None]] = {
        "random": lambda module: module.seed(),
        "numpy.random": lambda module: module.seed(),
        "ssl": _reseed_openssl,
        "tempfile": _forget_names,
        "multiprocessing.process": _renew_authkey,
        "multiprocessing.synchronize": lambda module: _renew_names(module.SemLock),
        "multiprocessing.heap": lambda module: _renew_names(module.Arena),
        "uuid": _renew_node,
        "sqlite3": _reseed_sqlite,
    }
    for name, step in steps.items():
        module = sys.modules.get(name)
        if module is None:
            continue
        try:
            step(module)
        except Exception:  # noqa: BLE001: the user may have put anything in the module's place
            continue


def _reseed_openssl(ssl: Any) -> None:
    """
    What is added goes to the generator at the top, which asks the system for more at the same time. Those of each
    thread, of which TLS draws its keys, see at their next use that it was seeded, and follow.
    """
    ssl.RAND_add(os.urandom(_SEED_BYTES), float(_SEED_BYTES))


def _forget_names(tempfile: Any) -> None:
    """It has a generator of its own, and takes a new one when the process has another id. A copy has the same."""
    with tempfile._once_lock:
        tempfile._name_sequence = None


def _renew_names(owner: Any) -> None:
    import tempfile

    owner._rand = tempfile._RandomNameSequence()


def _renew_authkey(process: Any) -> None:
    """Not while there are children: they hold the old one."""
    if not process._children:
        process.current_process().authkey = os.urandom(32)


def _renew_node(uuid: Any) -> None:
    """
    `uuid1` is made of the time, the address of the network card, which is that of every sandbox, and a number that
    libuuid draws once: a random address, and a number for each, by Python's own way.
    """
    uuid._generate_time_safe = None
    uuid._node = uuid._random_getnode()


def _reseed_sqlite(_sqlite: Any) -> None:
    """Zero bytes asked for: its generator begins anew, with a seed from the system."""
    import ctypes

    ctypes.CDLL("libsqlite3.so.0").sqlite3_randomness(0, None)
