"""Points that no line joins."""

from __future__ import annotations

from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from . import axis
from .values import finite


def chart(axes: Axes) -> dict[str, Any]:
    elements = [_element(one) for one in axes.collections if isinstance(one, PathCollection)]
    return {"type": "scatter", **axis.names(axes), **axis.scales(axes), "elements": elements}


def _element(collection: PathCollection) -> dict[str, Any]:
    offsets = numpy.ma.filled(numpy.ma.asarray(collection.get_offsets(), dtype=float), numpy.nan)
    return {"label": str(collection.get_label()), "points": [[finite(x), finite(y)] for x, y in offsets]}
