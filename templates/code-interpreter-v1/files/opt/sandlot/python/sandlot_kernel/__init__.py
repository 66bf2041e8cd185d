"""
What runs inside the Python kernels of the template: an IPython extension that shows values as clients of the code
interpreter expect them, and the few calls by which the server on port 49999 prepares a kernel.

The server calls these silently, as `__import__('sandlot_kernel').reseed()`, so that no name of theirs is left in the
user's namespace. Nothing in here may let a cell fail: what cannot be shown in a richer way is shown as plain text.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from .folder import set_folder
from .randomness import reseed
from .variables import set_variables

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["load_ipython_extension", "reseed", "set_folder", "set_variables"]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Step by step: a package that the user has changed or broken takes one of them away, and the kernel starts."""
    _leave_search_path()
    # Not at the top: programs of the user that find this package are not to pay for it.
    from . import images, messages, output, shows, warm

    steps = (
        lambda: messages.make_ascii(shell),
        lambda: output.keep_prints_apart(shell),
        lambda: shows.register(shell),
        images.display_what_is_saved,
        warm.load_matplotlib,
        warm.use_inline_backend,
        warm.load_pandas,
        warm.load_network,
        warm.load_tracebacks,
    )
    for step in steps:
        try:
            step()
        except Exception:  # noqa: BLE001: packages may be broken in any way
            shell.log.warning("the kernel starts without a part of its set-up", exc_info=True)


def _leave_search_path() -> None:
    """Programs that the user starts are not to find this package before their own, nor in their environment."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    rest = [folder for folder in given if folder and os.path.abspath(folder) != here]
    if rest:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)
    if here in sys.path:
        sys.path.remove(here)
        sys.path.append(here)
