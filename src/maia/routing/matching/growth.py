"""What becomes of the old blocks while a larger one is built in their place?

They go on answering. The matching index takes one step of the new block with
each change and each question, so that no caller waits for the whole of it. What
leaves meanwhile leaves the new block too, once it is there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from maia.routing.matching.block import Block, Steps

__all__ = ["Growth"]

Key = TypeVar("Key", bound=Hashable)


class Growth(Generic[Key]):
    """A block in the making, and those whose place it takes."""

    __slots__ = ("_made", "_steps", "blocks", "left")

    def __init__(self, blocks: Sequence[Block[Key]], steps: Steps[Key]) -> None:
        """Begin, without a step."""
        self.blocks = blocks
        self.left: list[Key] = []
        """Filters that have left one of the blocks since."""
        self._steps = steps
        self._made: Block[Key] | None = None

    def advance(self) -> bool:
        """Take one step; say whether it was the last."""
        try:
            next(self._steps)
        except StopIteration as end:
            self._made = end.value
        return self._made is not None

    def made(self) -> Block[Key]:
        """Return the block, without what has left."""
        assert self._made is not None  # noqa: S101 - asked after the last step
        for key in self.left:
            if key in self._made:
                self._made.discard(key)
        return self._made
