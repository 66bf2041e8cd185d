"""Wedges of a pie."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Wedge

from .values import rounded


def chart(axes: Axes) -> dict[str, Any]:
    elements = [_element(patch) for patch in axes.patches if isinstance(patch, Wedge)]
    return {"type": "pie", "title": axes.get_title() or None, "elements": elements}


def _element(wedge: Wedge) -> dict[str, Any]:
    angle = rounded(abs(wedge.theta2 - wedge.theta1))
    return {"label": str(wedge.get_label()), "angle": angle, "radius": float(wedge.r)}
