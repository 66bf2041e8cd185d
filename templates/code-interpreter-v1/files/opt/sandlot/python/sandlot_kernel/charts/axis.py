"""Labels, units, ticks and scales of the axes of a chart."""

from __future__ import annotations

import re
from typing import Any

import matplotlib.dates
from matplotlib.axes import Axes
from matplotlib.axis import Axis

from .values import finite

_UNIT = re.compile(r"\s\((.*?)\)|\[(.*?)\]")
_DATE_CONVERTERS = (matplotlib.dates.DateConverter, matplotlib.dates._SwitchableDateConverter)


def names(axes: Axes) -> dict[str, Any]:
    """What all charts with two axes have."""
    return {
        "title": axes.get_title() or None,
        "x_label": axes.get_xlabel() or None,
        "y_label": axes.get_ylabel() or None,
        "x_unit": _unit(axes.get_xlabel()),
        "y_unit": _unit(axes.get_ylabel()),
    }


def scales(axes: Axes) -> dict[str, Any]:
    """What charts of points have as well."""
    found: dict[str, Any] = {}
    for letter, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        found[f"{letter}_ticks"] = _ticks(axis)
        found[f"{letter}_tick_labels"] = tick_labels(axis)
        found[f"{letter}_scale"] = _scale(axis)
    return found


def tick_labels(axis: Axis) -> list[str]:
    """From their formatter: the ticks themselves would have to be made first, and there may be thousands."""
    return [str(label) for label in axis.major.formatter.format_ticks(axis.get_majorticklocs())]


def tick_places(axis: Axis) -> list[float]:
    return [float(place) for place in axis.get_majorticklocs()]


def _unit(label: str) -> str | None:
    found = _UNIT.search(label)
    return None if found is None else (found[1] or found[2] or None)


def _ticks(axis: Axis) -> list[Any]:
    places = tick_places(axis)
    return [_date(axis, place) for place in places] if _has_dates(axis) else [finite(place) for place in places]


def _has_dates(axis: Axis) -> bool:
    return isinstance(axis.get_converter(), _DATE_CONVERTERS)


def _date(axis: Axis, place: float) -> str:
    frequency = getattr(axis, "freq", None)
    if frequency is not None:
        # Plots of pandas count whole periods.
        from pandas import Period

        return Period(ordinal=int(place), freq=frequency).to_timestamp().isoformat()
    return matplotlib.dates.num2date(place).isoformat()


def _scale(axis: Axis) -> str:
    if _has_dates(axis):
        return "datetime"
    if axis.get_scale() != "linear":
        return axis.get_scale()
    return "categorical" if _has_categories(tick_places(axis), tick_labels(axis)) else "linear"


def _has_categories(places: list[float], labels: list[str]) -> bool:
    if not places or any(place != at for at, place in enumerate(places)):
        return False
    return not any(_is_number(label, at) for at, label in enumerate(labels))


def _is_number(label: str, number: int) -> bool:
    try:
        return float(label) == number
    except ValueError:
        return False
