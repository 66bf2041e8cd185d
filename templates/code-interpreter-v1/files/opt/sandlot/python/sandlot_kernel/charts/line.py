"""Lines."""

from __future__ import annotations

import re
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from . import axis
from .values import coordinates, points

_AUTOMATIC = re.compile(r"_child(\d+)")


def chart(axes: Axes) -> dict[str, Any]:
    elements = [_element(line) for line in axes.lines if not is_straight(line)]
    return {"type": "line", **axis.names(axes), **axis.scales(axes), "elements": elements}


def is_straight(artist: Artist) -> bool:
    """Two points, exactly above or beside each other: a mark, such as a threshold, and none of the data."""
    if not isinstance(artist, Line2D):
        return False
    xs, ys = artist.get_data(orig=False)
    return len(xs) == 2 and len(ys) == 2 and bool(xs[0] == xs[1] or ys[0] == ys[1])


def _element(line: Line2D) -> dict[str, Any]:
    xs = coordinates(line.get_xdata(orig=True), line.get_xdata(orig=False))
    ys = coordinates(line.get_ydata(orig=True), line.get_ydata(orig=False))
    return {"label": _label(str(line.get_label())), "points": points(xs, ys)}


def _label(given: str) -> str:
    automatic = _AUTOMATIC.fullmatch(given)
    return given if automatic is None else f"Line {automatic[1]}"
