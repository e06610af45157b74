"""Which messages of a read are frames of one stream, so that they may be taken on together?

Single events of one stream begin with the same bytes: kind and reference, or kind, type, publisher, stream.
So most messages that do not belong together are told apart before they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from maia.errors import MaiaError
from maia.wire.codec import beginning_of, decode
from maia.wire.messages import Carried, Publish, Sealed

Frames: TypeAlias = Publish | Carried | Sealed

_KEY: Final = 34
_TOKEN: Final = 18
"""How long keys and tokens are in a message, with what says so."""
_PUBLISH: Final = beginning_of(Publish)
_OF_BROKERS: Final = (
    (beginning_of(Carried), len(beginning_of(Carried)) + 2 * _KEY + _TOKEN),
    (beginning_of(Sealed), len(beginning_of(Sealed)) + 3 * _KEY + _TOKEN),
)
_INTEGERS: Final = {0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}
"""How many bytes an integer has that is not one byte, by the first of them."""


def gathered(data: Sequence[bytes], *, is_client: bool) -> Sequence[Frames]:
    """Return the single events of one stream with which a read begins, in their order; none if it is one."""
    start = _start(data[0], is_client=is_client)
    if not start or not data[1].startswith(start):
        return ()
    found: list[Frames] = []
    for one in data:
        if not one.startswith(start):
            break
        try:
            message = decode(one)
        except MaiaError:
            break  # it is said when it is its turn
        if not isinstance(message, Publish | Carried | Sealed) or message.rows != 1:
            break
        if not isinstance(message, Publish) and message.kept:
            break
        if found and message.sequence <= found[-1].sequence:
            break
        found.append(message)
    return found if len(found) > 1 else ()


def _start(data: bytes, *, is_client: bool) -> bytes:
    """Return with what all frames of a stream begin; nothing if it is no frame."""
    if is_client:
        if not data.startswith(_PUBLISH):
            return b""
        return data[: len(_PUBLISH) + _INTEGERS.get(data[len(_PUBLISH)], 1)]
    return next((data[:size] for kind, size in _OF_BROKERS if data.startswith(kind)), b"")
