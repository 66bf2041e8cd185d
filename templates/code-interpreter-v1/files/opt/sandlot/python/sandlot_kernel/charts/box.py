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


def chart(axes: Axes) -> dict[str, Any]:
    boxes = [patch for patch in axes.patches if isinstance(patch, PathPatch)]
    across = 1 if _are_lying(boxes, axes) else 0
    elements = [_element(box, axes, across) for box in boxes]
    return {"type": "box_and_whisker", **axis.names(axes), "elements": elements}


def _are_lying(boxes: list[PathPatch], axes: Axes) -> bool:
    """The line of the median goes across the box: it says how the box stands."""
    upright = sum(_median(box, axes, 0) is not None for box in boxes)
    lying = sum(_median(box, axes, 1) is not None for box in boxes)
    return lying > upright


def _element(box: PathPatch, axes: Axes, across: int) -> dict[str, Any]:
    """`across` is the direction in which boxes stand side by side: 0 for x, the other one is that of the values."""
    along = 1 - across
    edges = _edges(box)
    left, right = edges[:, across]
    low, high = edges[:, along]
    ends = _whisker_ends(axes, across, (left, right), (low, high))
    least, most = min([low, *ends]), max([high, *ends])
    median = _median(box, axes, across)
    outliers = _loose_points(axes, across, (left, right), (least, most))
    return {
        "label": _label_at((left + right) / 2, axes.yaxis if across else axes.xaxis, right - left),
        "min": rounded(least),
        "first_quartile": rounded(low),
        "median": rounded((low + high) / 2 if median is None else median),
        "third_quartile": rounded(high),
        "max": rounded(most),
        "outliers": [rounded(value) for value in outliers],
    }


def _edges(box: PathPatch) -> numpy.ndarray:
    """Rows: low and high; columns: x and y. The last vertex closes the path, wherever it is."""
    path = box.get_path()
    vertices = path.vertices if path.codes is None else path.vertices[path.codes != path.CLOSEPOLY]
    return numpy.array([vertices.min(axis=0), vertices.max(axis=0)])


def _median(box: PathPatch, axes: Axes, across: int) -> float | None:
    """The first line of two points across the box and inside it; that of the mean is drawn after it."""
    along = 1 - across
    edges = _edges(box)
    slack = _slack(edges)
    for line in axes.lines:
        places = _places(line)
        if len(places) != 2 or abs(places[0, along] - places[1, along]) > slack[along]:
            continue
        is_wide = abs(places[0, across] - places[1, across]) > slack[across]
        if is_wide and _is_inside(places, edges, slack):
            return float(places[0, along])
    return None


def _is_inside(places: numpy.ndarray, edges: numpy.ndarray, slack: numpy.ndarray) -> bool:
    return bool(numpy.all(places >= edges[0] - slack) and numpy.all(places <= edges[1] + slack))


def _whisker_ends(
    axes: Axes, across: int, sides: tuple[float, float], quartiles: tuple[float, float]
) -> list[float]:
    """Far ends of lines of two points that go along the values and touch the box at an end of it."""
    along = 1 - across
    ends = []
    slack = _TOLERANCE * max(quartiles[1] - quartiles[0], abs(quartiles[0]), abs(quartiles[1]))
    for line in axes.lines:
        places = _places(line)
        if len(places) != 2 or not _stands_in(places, across, sides):
            continue
        if abs(places[0, across] - places[1, across]) > _TOLERANCE * (sides[1] - sides[0]):
            continue
        near, far = sorted(places[:, along], key=lambda value: min(abs(value - edge) for edge in quartiles))
        if min(abs(near - edge) for edge in quartiles) <= slack:
            ends.append(float(far))
    return ends


def _loose_points(
    axes: Axes, across: int, sides: tuple[float, float], whiskers: tuple[float, float]
) -> list[float]:
    """Drawn without a line, beyond the whiskers."""
    along = 1 - across
    lines = [_places(line) for line in axes.lines if _is_loose(line)]
    marks = [places for places in lines if _stands_in(places, across, sides)]
    if len(marks) > 1 and len(marks[0]) == 1:
        # That of the mean: it is drawn before the outliers.
        del marks[0]
    values = [float(value) for places in marks for value in places[:, along]]
    return [value for value in values if value < whiskers[0] or value > whiskers[1]]


def _is_loose(line: Line2D) -> bool:
    return line.get_linestyle() in ("None", "none", " ", "")


def _stands_in(places: numpy.ndarray, across: int, sides: tuple[float, float]) -> bool:
    return len(places) > 0 and bool(numpy.all((places[:, across] >= sides[0]) & (places[:, across] <= sides[1])))


def _label_at(place: float, along: Any, width: float) -> str:
    for tick, label in zip(axis.tick_places(along), axis.tick_labels(along)):
        if abs(tick - place) <= max(width, abs(place)) * _TOLERANCE:
            return label
    return ""


def _places(line: Line2D) -> numpy.ndarray:
    return numpy.asarray(line.get_xydata(), dtype=float).reshape(-1, 2)


def _slack(edges: numpy.ndarray) -> numpy.ndarray:
    return numpy.maximum(edges[1] - edges[0], numpy.abs(edges).max(axis=0)) * _TOLERANCE
