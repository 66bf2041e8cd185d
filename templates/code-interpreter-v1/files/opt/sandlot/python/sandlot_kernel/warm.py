"""
Imports what nearly every cell imports, before the template's memory is kept, and uses it once: clones have it at no
cost. What needs no shell is done once, in the process that kernels are forked from. No name of it is put in the user's
namespace.
"""

from __future__ import annotations

import io
from functools import cache

FONTS = ["sans-serif", "Noto Sans CJK JP"]


@cache
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


@cache
def load_pandas() -> None:
    import numpy
    import pandas

    frame = pandas.DataFrame({"a": numpy.arange(2), "b": ["x", None]})
    repr(frame)
    frame.to_html()
    # What nearly every first look at a file does.
    pandas.read_csv(io.StringIO("a,b\n1,x")).describe()


def use_inline_backend() -> None:
    """It joins the shell when it is loaded; here it was loaded before there was one."""
    from matplotlib_inline import backend_inline

    backend_inline._enable_matplotlib_integration()


@cache
def load_tracebacks() -> None:
    """
    What lays them out is large, and otherwise loaded by the first cell that fails. It also parses the files of all
    frames, and each traceback of a cell has one of IPython's shell, which takes half a second the first time.
    """
    import executing
    from IPython.core import interactiveshell
    from IPython.core.ultratb import FormattedTB

    executing.Source.for_filename(interactiveshell.__file__, vars(interactiveshell))
    try:
        raise ValueError
    except ValueError as error:
        FormattedTB(mode="Context", color_scheme="NoColor").structured_traceback(type(error), error, error.__traceback__)


@cache
def load_debugger() -> None:
    """Every kernel loads it, whether or not somebody debugs."""
    import ipykernel.debugger  # noqa: F401


@cache
def load_network() -> None:
    """For its generator of keys, too: it is there when new seeds are drawn."""
    import ssl  # noqa: F401
    import urllib.request  # noqa: F401
