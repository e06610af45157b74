"""Stories of the papers that run: who takes part, what happens, and what each of them sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from maia.demo.scenes.scene import Scene

__all__ = ["SCENES"]


def _city() -> Scene:
    from maia.demo.scenes.city import CITY

    return CITY


def _ticker() -> Scene:
    from maia.demo.scenes.ticker import TICKER

    return TICKER


def _homecare() -> Scene:
    from maia.demo.scenes.homecare import HOMECARE

    return HOMECARE


SCENES: Final[dict[str, Callable[[], Scene]]] = {"city": _city, "ticker": _ticker, "homecare": _homecare}
"""The scenes by name; each is loaded when it is played."""
