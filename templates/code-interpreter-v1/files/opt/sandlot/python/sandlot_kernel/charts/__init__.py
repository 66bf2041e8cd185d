"""
Figures of matplotlib as data: what is drawn, with its labels, ticks and values. One file for each type of chart.

`chart` is imported at the first figure: without one, matplotlib need not be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def of_figure(figure: Figure) -> dict[str, Any] | None:
    from . import chart

    return chart.of_figure(figure)
