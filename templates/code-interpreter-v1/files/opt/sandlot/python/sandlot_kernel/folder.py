"""The working folder of a context."""

from __future__ import annotations

import os


def set_folder(path: str) -> str:
    """As `%cd` does it, but a folder that cannot be entered is an error. Gives the folder that it is now."""
    from IPython.core.getipython import get_ipython

    os.chdir(path)
    here = os.getcwd()
    shell = get_ipython()
    if shell is not None:
        # `%cd -` goes back to the folder before: there is none yet.
        shell.user_ns["_dh"] = [here]
    return here
