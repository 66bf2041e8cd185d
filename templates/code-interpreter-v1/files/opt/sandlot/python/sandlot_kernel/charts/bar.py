"""Bars, upright or lying, one group for each call that drew some."""

from __future__ import annotations

import bisect
import re
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import BarContainer
from matplotlib.patches import Rectangle

from . import axis
from .values import finite

_AUTOMATIC = re.compile(r"_container(\d+)")
#: Of the width of a bar: how far beside it a tick may be, for edges that do not quite meet.
_TOLERANCE = 1e-6


def chart(axes: Axes) -> dict[str, Any]:
    groups = [container for container in axes.containers if isinstance(container, BarContainer)]
    names = axis.names(axes)
    if any(_is_lying(group) for group in groups):
        for member in ("label", "unit"):
            names[f"x_{member}"], names[f"y_{member}"] = names[f"y_{member}"], names[f"x_{member}"]
    elements = [element for group in groups for element in _elements(group, axes)]
    return {"type": "bar", **names, "elements": elements}


def _is_lying(group: BarContainer) -> bool:
    return group.orientation == "horizontal"


def _elements(group: BarContainer, axes: Axes) -> list[dict[str, Any]]:
    name = str(group.get_label())
    automatic = _AUTOMATIC.fullmatch(name)
    if automatic is not None:
        name = f"Group {automatic[1]}"
    lying = _is_lying(group)
    labels = _labels([_extent(bar, lying) for bar in group.patches], axes.yaxis if lying else axes.xaxis)
    lengths = [bar.get_width() if lying else bar.get_height() for bar in group.patches]
    return [
        {"label": label, "group": name, "value": finite(length)} for label, length in zip(labels, lengths, strict=True)
    ]


def _extent(bar: Rectangle, lying: bool) -> tuple[float, float]:
    start, size = (bar.get_y(), bar.get_height()) if lying else (bar.get_x(), bar.get_width())
    return (min(start, start + size), max(start, start + size))


def _labels(extents: list[tuple[float, float]], along: Axis) -> list[str]:
    """
    Of the ticks below the bars. Groups of bars stand beside their ticks, which are then as many as the bars; the bars
    of a histogram have ticks wherever they fall, and are told by their middle.
    """
    ticks = list(zip(axis.tick_places(along), axis.tick_labels(along)))
    in_order = sorted(ticks)
    below = [_label_below(extent, in_order) for extent in extents]
    if None in below and len(ticks) == len(extents):
        return [label for _, label in ticks]
    return [f"{sum(extent) / 2:g}" if label is None else label for extent, label in zip(extents, below)]


def _label_below(extent: tuple[float, float], ticks: list[tuple[float, str]]) -> str | None:
    """Of the tick that is nearest to the middle, if it is below the bar at all."""
    low, high = extent
    middle = (low + high) / 2
    after = bisect.bisect(ticks, (middle,))
    near = min(ticks[max(0, after - 1) : after + 1], key=lambda tick: abs(tick[0] - middle), default=None)
    if near is None or abs(near[0] - middle) > (high - low) * (0.5 + _TOLERANCE):
        return None
    return near[1]
