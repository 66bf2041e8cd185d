"""
Imports what nearly every cell imports, before the template's memory is kept, and uses it once: clones have it at no
cost. No name of it is put in the user's namespace.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

FONTS = ["sans-serif", "Noto Sans CJK JP"]


def load_matplotlib() -> None:
    import matplotlib
    import matplotlib.pyplot  # noqa: F401: makes the inline backend the one in use
    from matplotlib.figure import Figure

    from .charts import chart  # noqa: F401

    matplotlib.rcParams["font.family"] = FONTS
    # Not by pyplot, which would keep it as the current figure.
    figure = Figure()
    figure.subplots().plot([0, 1])
    figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")


def load_pandas() -> None:
    import numpy
    import pandas

    frame = pandas.DataFrame({"a": numpy.arange(2), "b": ["x", None]})
    repr(frame)
    frame.to_html()
    # What nearly every first look at a file does.
    pandas.read_csv(io.StringIO("a,b\n1,x")).describe()


def load_tracebacks(shell: InteractiveShell) -> None:
    """
    What lays them out is large, and otherwise loaded by the first cell that fails. It also parses the files of all
    frames, and each traceback of a cell has one of IPython's shell, which takes half a second the first time.
    """
    import executing
    from IPython.core import interactiveshell

    executing.Source.for_filename(interactiveshell.__file__, vars(interactiveshell))
    try:
        raise ValueError
    except ValueError as error:
        shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)


def load_network() -> None:
    """For its generator of keys, too: it is there when new seeds are drawn."""
    import ssl  # noqa: F401
    import urllib.request  # noqa: F401
