"""Which type of chart a figure is."""

from __future__ import annotations

from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle, Wedge
from matplotlib.text import Text

from ..limits import MAX_POINTS
from . import bar, box, line, pie, scatter
from .line import is_straight


def of_figure(figure: Figure) -> dict[str, Any] | None:
    """None if nothing is drawn, or too much of it."""
    drawn = [axes for axes in figure.axes if axes.has_data()]
    if not drawn or sum(map(_count_points, drawn)) > MAX_POINTS:
        return None
    if len(drawn) == 1:
        return _of_axes(drawn[0])
    elements = [_of_axes_or_unknown(axes) for axes in drawn]
    return {"type": "superchart", "title": figure.get_suptitle() or None, "elements": elements}


def _of_axes_or_unknown(axes: Axes) -> dict[str, Any]:
    try:
        return _of_axes(axes)
    except Exception:  # noqa: BLE001: one that is not understood hides none of the others
        return _unknown(axes)


def _of_axes(axes: Axes) -> dict[str, Any]:
    # Without the axes' own parts: spines, titles, background, legend.
    artists = [artist for artist in axes._children if not isinstance(artist, Text)]
    if axes.name == "3d":
        # What is known of it is a flat projection.
        return _unknown(axes)
    if _all(artists, Line2D):
        return line.chart(axes)
    if _all(artists, (PathPatch, Line2D)):
        return box.chart(axes)
    rest = [artist for artist in artists if not is_straight(artist)]
    if _all(rest, PathCollection):
        return scatter.chart(axes)
    if _all(rest, Wedge):
        return pie.chart(axes)
    if _all(rest, Rectangle):
        return bar.chart(axes)
    return _unknown(axes)


def _all(artists: list[Artist], kinds: type | tuple[type, ...]) -> bool:
    return len(artists) > 0 and all(isinstance(artist, kinds) for artist in artists)


def _unknown(axes: Axes) -> dict[str, Any]:
    return {"type": "unknown", "title": axes.get_title() or None, "elements": []}


def _count_points(axes: Axes) -> int:
    lines = sum(len(one.get_xdata(orig=False)) for one in axes.lines)
    return lines + sum(len(one.get_offsets()) for one in axes.collections) + len(axes.patches)
