"""How is what a View shows written, so that other brokers know which subscribers see the same?

What its holder selects, and until when, is not a part of it: subscribers who would see the same of every
event form one *class*, and a class is known by the digest of these bytes. Nothing at all is written of a
View that shows everything.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import Final

from maia.canonical import SExpression, read_canonical, write_canonical
from maia.canonical.expression import Limits
from maia.credentials.authority import ALL_ATTRIBUTES, Transformation
from maia.credentials.encoding.parts import (
    attributes_from_expressions,
    attributes_to_expressions,
    transformation_from_expression,
    transformation_to_expression,
)
from maia.errors import BadInput, MaiaError
from maia.policy.view import WINDOWS_MAX, View, Window
from maia.predicates import ALWAYS, predicate_from_expression, predicate_to_expression

VIEW_BYTES_MAX: Final = 32_768
CLASS_BYTES: Final = 16
EVERYTHING: Final = b""
"""What is written of a View that shows everything, and the digest of its class."""
_WHOLE: Final = (Window(ALWAYS, ALL_ATTRIBUTES),)
_VIEWS_REMEMBERED: Final = 1024
_KEY_BYTES: Final = 32


def view_to_bytes(view: View) -> bytes:
    """Return what a View shows, in its one form."""
    if view.windows == _WHOLE:
        return EVERYTHING
    windows = tuple(
        (
            predicate_to_expression(window.admits),
            attributes_to_expressions(window.attributes),
            *((step.holder, transformation_to_expression(step)) for step in window.transformations),
        )
        for window in view.windows
    )
    return write_canonical((b"view", view.recipient, *windows))


@lru_cache(maxsize=_VIEWS_REMEMBERED)
def view_from_bytes(data: bytes) -> View:
    """Read what a View shows; whatever `view_to_bytes` would not write is refused."""
    if data == EVERYTHING:
        return View(_WHOLE)
    wrong = BadInput("INPUT-VIEW", "what a View shows is not written as it has to be")
    if len(data) > VIEW_BYTES_MAX:
        raise wrong
    match read_canonical(data, Limits(size_max=VIEW_BYTES_MAX)):
        case (b"view", bytes() as recipient, *windows) if 0 < len(windows) <= WINDOWS_MAX:
            view = View(tuple(map(_window, windows)), recipient=recipient)
        case _:
            raise wrong
    try:
        is_canonical = len(recipient) in (0, _KEY_BYTES) and view_to_bytes(view) == data
    except MaiaError:
        is_canonical = False
    if not is_canonical:
        raise wrong
    return view


def class_of(data: bytes) -> bytes:
    """Return the digest by which holders of equal Views are known; nothing for those who see everything."""
    return sha256(b"maia/1/view-class\x00" + data).digest()[:CLASS_BYTES] if data else EVERYTHING


def _window(expression: SExpression) -> Window:
    match expression:
        case (admits, tuple() as attributes, *steps):
            return Window(
                predicate_from_expression(admits),
                attributes_from_expressions(attributes),
                tuple(map(_step, steps)),
            )
    raise BadInput("INPUT-VIEW", "a window of a View is not written as it has to be")


def _step(expression: SExpression) -> Transformation:
    match expression:
        case (bytes() as holder, written) if len(holder) in (0, _KEY_BYTES):
            return transformation_from_expression(written, holder)
    raise BadInput("INPUT-VIEW", "a transformation of a View is not written as it has to be")
