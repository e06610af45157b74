"""How do measurements become pictures? All of them are SVG, drawn here: the same results give the same file.

A picture has a sheet of its own, white on a light screen and dark on a dark one.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from textwrap import fill
from typing import Any

from harness import BENCH_FOLDER

IMAGES = BENCH_FOLDER.parent / "docs" / "images"
DARK = "@media (prefers-color-scheme: dark){svg{filter:invert(.9) hue-rotate(180deg)}}"
OURS, PEERS = "#2563eb", "#9aa5b1"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: what it is, how long, and whether it is ours."""

    label: str
    value: float
    is_ours: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A measured curve, and the straight line through its logarithms; dots beyond the measured are hollow."""

    label: str
    points: Sequence[tuple[float, float]]
    fit: Sequence[tuple[float, float]]
    extrapolated: Sequence[tuple[float, float]] = ()


# Any: matplotlib is imported when something is drawn, and has few types.
def subplots(*shape: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """Return an empty figure, and its axes as `pyplot.subplots` returns them."""
    from matplotlib.figure import Figure as Sheet

    sheet = Sheet(figsize=size)
    return sheet, sheet.subplots(*shape, **options)


def save(sheet: Any, name: str) -> None:
    """Write a figure into the documents' pictures, without a date, so that nothing else changes it."""
    import matplotlib as mpl

    drawn = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "maia", "svg.fonttype": "none"}):
        sheet.savefig(drawn, format="svg", bbox_inches="tight", metadata={"Date": None})
    IMAGES.mkdir(exist_ok=True)
    text = drawn.getvalue().replace("</style>", f"{DARK}</style>", 1)
    (IMAGES / f"{name}.svg").write_text(
        "\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8"
    )


def draw_bars(name: str, title: str, bars: Sequence[Bar], unit: str) -> None:
    """Draw bars below each other on a logarithmic scale, each with its number; ours are blue."""
    sheet, axes = subplots(size=(8, 0.6 + 0.33 * len(bars)))
    places = range(len(bars), 0, -1)
    axes.barh(
        places,
        [bar.value for bar in bars],
        color=[OURS if bar.is_ours else PEERS for bar in bars],
        height=0.65,
    )
    for place, bar in zip(places, bars, strict=True):
        rounded = float(f"{bar.value:.3g}")
        shown = f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"
        axes.text(bar.value * 1.08, place, shown, va="center", fontsize=8)
    axes.set_xscale("log")
    least, most = min(bar.value for bar in bars), max(bar.value for bar in bars)
    axes.set_xlim(10 ** floor(log10(least)) / 2, most * 4)
    axes.set_yticks(list(places), [bar.label for bar in bars], fontsize=8)
    axes.set_xlabel(unit, fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_title(title, fontsize=10)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    save(sheet, name)


def draw_growth(name: str, title: str, along: str, by_unit: Mapping[str, Sequence[Line]]) -> None:
    """Draw curves over a size, both scales logarithmic, side by side by their unit."""
    sheet, places = subplots(1, len(by_unit), size=(4.2 * len(by_unit), 3.2), squeeze=False)
    for axes, (unit, lines) in zip(places[0], by_unit.items(), strict=True):
        for number, line in enumerate(lines):
            colour, label = f"C{number}", fill(line.label, 52)
            axes.plot(*zip(*line.points, strict=True), "o", color=colour, markersize=4, label=label)
            axes.plot(*zip(*line.fit, strict=True), "--", color=colour, linewidth=0.8)
            if line.extrapolated:
                axes.plot(*zip(*line.extrapolated, strict=True), "o", color=colour, markersize=4, mfc="none")
        axes.set(xscale="log", yscale="log")
        axes.set_xlabel(along, fontsize=8)
        axes.set_ylabel(unit, fontsize=8)
        axes.tick_params(which="both", labelsize=7)
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.18), frameon=False)
    sheet.suptitle(title, fontsize=10)
    save(sheet, name)
