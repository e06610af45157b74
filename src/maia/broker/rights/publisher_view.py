"""What does a publisher's frame become under its View?

Transformations on publication come first. Then attributes without right are left
out, forced values replace whatever was given, and rows outside the rest of the
restriction are refused and counted.
Row by row this is `shape` of the policy kernel; here it is done by column,
and rows are looked at one by one only where the restriction leaves a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from maia.credentials import ALL_ATTRIBUTES
from maia.events import AttributeUid, Column, Frame, kind_of
from maia.expressions.meaning import NO_KEYS, TransformationKeys
from maia.policy import PublicationRefused, View, Window, shows
from maia.predicates import ALWAYS, AllOf, Comparison, Operator, attributes_of, covers
from maia.types.definition import TOPIC, is_topic
from maia.views import Test, to_python_test
from maia.views.frame_transformers import SeeFrame, transforming_frames

_LAYOUTS_MAX: Final = 8


class Shaped(msgspec.Struct, frozen=True):
    """The rows that may be sent, as they will travel, and which rows of the given frame they are."""

    frame: Frame
    rows: Sequence[int]
    refused: int


@dataclass(frozen=True, slots=True)
class Shaper:
    """A publisher's View, ready to be applied to frames."""

    window: Window = field(repr=False)
    forced: dict[AttributeUid, Column] = field(repr=False)
    """One row of each forced column, to be repeated."""
    test: Test | None = field(repr=False)
    """What each row must satisfy; None where the forced values see to it."""
    tested: frozenset[AttributeUid] = field(repr=False)
    root: str | None = None
    """The tree, if these are events on topics: a path that is none is refused (A5)."""
    transform: SeeFrame | None = field(default=None, repr=False)
    """What is made of a frame before anything else is asked; None for nothing."""

    @property
    def is_open(self) -> bool:
        """Return whether every frame of the type may be sent as it is."""
        is_any_row = self.test is None and self.transform is None
        return is_any_row and not self.forced and self.window.attributes is ALL_ATTRIBUTES

    def shape(self, frame: Frame) -> Shaped:
        """Return the frame as its publisher may send it; rows are refused, never mended."""
        made, numbers = (frame, range(frame.rows)) if self.transform is None else self.transform(frame)
        if made is None:
            return Shaped(frame.take(()), (), refused=frame.rows)
        written = self._written(made)
        rows = self._passing(written)
        if len(rows) == made.rows:
            return Shaped(written, numbers, refused=frame.rows - made.rows)
        kept = [numbers[row] for row in rows]
        return Shaped(written.take(rows), kept, refused=frame.rows - len(kept))

    def _written(self, frame: Frame) -> Frame:
        if not self.forced and self.window.attributes is ALL_ATTRIBUTES:
            return frame
        columns = {uid: column for uid, column in frame.columns.items() if shows(self.window, uid)}
        for uid, one in self.forced.items():
            columns[uid] = Column(one.kind, one.values * frame.rows)
        return Frame(frame.rows, columns)

    def _passing(self, written: Frame) -> Sequence[int]:
        test = self.test
        if test is None:
            return range(written.rows)
        passing = [row for row, event in enumerate(written.only(self.tested).events()) if test(event)]
        if self.root is None or not passing:
            return passing
        topics = written.columns[TOPIC.uid].values
        good = {topic for topic in set(topics) if is_topic(topic, self.root)}
        return [row for row in passing if topics[row] in good]


def shaper_of(view: View, root: str | None = None, keys: TransformationKeys = NO_KEYS) -> Shaper:
    """Prepare a publisher's View; one that has not exactly one window publishes nothing.

    `root` is the tree, if the type is one of topics, and `keys` are the secrets of pseudonyms and noise.
    """
    if len(view.windows) != 1:
        raise PublicationRefused(())
    (window,) = view.windows
    forced = {uid: Column(kind_of(value), (value,)) for uid, value in view.forced.items()}
    given = AllOf(tuple(Comparison(uid, Operator.EQ, value) for uid, value in view.forced.items()))
    # Every row carries the forced values, so a restriction that they satisfy holds for every row.
    always = root is None and (window.admits == ALWAYS or covers(wide=window.admits, narrow=given))
    test = None if always else to_python_test(window.admits)
    transform = None
    if view.on_publication:
        steps = Window(ALWAYS, ALL_ATTRIBUTES, view.on_publication)
        transform = transforming_frames(View((steps,), recipient=view.recipient), keys)
    return Shaper(window, forced, test, attributes_of(window.admits), root, transform)
