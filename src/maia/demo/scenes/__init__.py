"""Stories of the papers that run: who takes part, what happens, and what each of them sees."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from maia.demo.scenes.scene import Scene

__all__ = ["SCENES"]


def _scene(name: str) -> Scene:
    scene: Scene = getattr(import_module(f"maia.demo.scenes.{name}"), name.upper())
    return scene


SCENES: Final = {name: partial(_scene, name) for name in ("city", "ticker", "homecare")}
"""The scenes by name; each is loaded when it is played."""
