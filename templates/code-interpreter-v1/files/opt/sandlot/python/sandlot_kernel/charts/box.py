"""Boxes with whiskers, found again in the patches and lines they are drawn of."""

from __future__ import annotations

from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch

from . import axis
from .values import rounded

#: Of the size of what is drawn: how far apart two places may be that are meant to be one.
_TOLERANCE = 1e-6
_NO_LINE = ("None", "none", " ", "")


def chart(axes: Axes) -> dict[str, Any]:
    edges = [_edges(patch) for patch in axes.patches if isinstance(patch, PathPatch)]
    upright, lying = _Boxes(axes, across=0), _Boxes(axes, across=1)
    # The line of the median goes across the box: it says how the box stands.
    stand = [boxes.median(edge) is not None for boxes in (upright, lying) for edge in edges]
    boxes = upright if sum(stand[: len(edges)]) >= sum(stand[len(edges) :]) else lying
    return {"type": "box_and_whisker", **axis.names(axes), "elements": [boxes.element(edge) for edge in edges]}


def _edges(box: PathPatch) -> numpy.ndarray:
    """Rows: low and high; columns: x and y. The vertex that closes the path may be anywhere."""
    path = box.get_path()
    vertices = path.vertices if path.codes is None else path.vertices[path.codes != path.CLOSEPOLY]
    return numpy.array([vertices.min(axis=0), vertices.max(axis=0)])


class _Boxes:
    """What is drawn beside the boxes, seen in one direction: `across` is the one in which boxes stand side by side."""

    def __init__(self, axes: Axes, across: int) -> None:
        self._across, self._along = across, 1 - across
        places = [(line, numpy.asarray(line.get_xydata(), dtype=float).reshape(-1, 2)) for line in axes.lines]
        # One row for each line of two points, with its two ends.
        self._pairs = numpy.array([ends for _, ends in places if len(ends) == 2]).reshape(-1, 2, 2)
        self._marks = [points for line, points in places if len(points) > 0 and _is_loose(line)]
        beside = axes.yaxis if across else axes.xaxis
        self._ticks = numpy.array(axis.tick_places(beside), dtype=float)
        self._tick_labels = axis.tick_labels(beside)

    def element(self, edges: numpy.ndarray) -> dict[str, Any]:
        low, high = (float(value) for value in edges[:, self._along])
        ends = self._whisker_ends(edges)
        least, most = min([low, *ends]), max([high, *ends])
        median = self.median(edges)
        return {
            "label": self._label(edges),
            "min": rounded(least),
            "first_quartile": rounded(low),
            "median": rounded((low + high) / 2 if median is None else median),
            "third_quartile": rounded(high),
            "max": rounded(most),
            "outliers": [rounded(value) for value in self._loose(edges) if value < least or value > most],
        }

    def median(self, edges: numpy.ndarray) -> float | None:
        """The widest line across the box and inside it; that of the mean is as wide, and is drawn after it."""
        slack = _slack(edges)
        across, along, pairs = self._across, self._along, self._pairs
        widths = abs(pairs[:, 0, across] - pairs[:, 1, across])
        is_inside = ((pairs >= edges[0] - slack) & (pairs <= edges[1] + slack)).all(axis=(1, 2))
        is_level = abs(pairs[:, 0, along] - pairs[:, 1, along]) <= slack[along]
        found = numpy.flatnonzero(is_inside & is_level & (widths > slack[across]))
        if len(found) == 0:
            return None
        widest = widths[found].max()
        found = found[widths[found] >= widest - slack[across]]
        values = pairs[found, 0, along]
        # In a notch it is no wider than the caps, which lie on an edge where a whisker has no length.
        is_notched = widest < edges[1, across] - edges[0, across] - slack[across]
        off_edges = values[(abs(values[:, None] - edges[:, along]) > slack[along]).all(axis=1)]
        return float(off_edges[0] if is_notched and len(off_edges) > 0 else values[0])

    def _whisker_ends(self, edges: numpy.ndarray) -> list[float]:
        """Far ends of lines that go along the values and touch the box at an end of it."""
        slack = _slack(edges)
        across, along, pairs = self._across, self._along, self._pairs
        is_upright = abs(pairs[:, 0, across] - pairs[:, 1, across]) <= slack[across]
        found = []
        for ends in pairs[is_upright & _stand_in(pairs, across, edges)][:, :, along]:
            # Of each end, how far it is from the nearer quartile.
            away = abs(ends[:, None] - edges[:, along]).min(axis=1)
            if away.min() <= slack[along]:
                found.append(float(ends[away.argmax()]))
        return found

    def _loose(self, edges: numpy.ndarray) -> list[float]:
        """Points drawn without a line."""
        marks = [points for points in self._marks if _stand_in(points[None], self._across, edges)[0]]
        if len(marks) > 1 and len(marks[0]) == 1:
            # That of the mean: it is drawn before the outliers.
            del marks[0]
        return [float(value) for points in marks for value in points[:, self._along]]

    def _label(self, edges: numpy.ndarray) -> str:
        """Of the tick in the middle of the box."""
        middle = edges[:, self._across].mean()
        found = numpy.flatnonzero(abs(self._ticks - middle) <= _slack(edges)[self._across])
        return self._tick_labels[found[0]] if len(found) > 0 else ""


def _is_loose(line: Line2D) -> bool:
    return line.get_linestyle() in _NO_LINE


def _stand_in(lines: numpy.ndarray, across: int, edges: numpy.ndarray) -> numpy.ndarray:
    """Of each line: whether all of it is between the sides of the box."""
    places = lines[:, :, across]
    return ((places >= edges[0, across]) & (places <= edges[1, across])).all(axis=1)


def _slack(edges: numpy.ndarray) -> numpy.ndarray:
    return numpy.maximum(edges[1] - edges[0], abs(edges).max(axis=0)) * _TOLERANCE
