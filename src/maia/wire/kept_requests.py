"""How does a broker keep thousands of signed requests in little memory?

It shows them to other brokers for as long as something rests on them. The
requests of one client for one type differ in their filter, moment, nonce and
signature. Those are kept for each; all the rest is one frame, which requests
share for as long as one of them is kept. Whatever the bytes are, the same
come back: how much is shared depends on their layout, and nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

__all__ = ["RequestFrame", "framed_request"]

_FILTER: Final = b"(6:filter"
_END: Final = len(b"))")
_SIGNATURE: Final = 64
_SIGNER: Final = len(b"))(6:signer(7:ed2551932:") + 32 + len(b"))(9:signature7:ed2551964:")
_NONCE: Final = 16
_BEFORE_NONCE: Final = len(b")(5:nonce16:")
_MOMENT: Final = 16
_STREAM: Final = len(b")(6:stream16:") + 16 + len(b")(2:at16:")

# Where the parts of a request begin, counted from its end: nearly all end in as many bytes as any other.
_SIGNED_AT: Final = _SIGNATURE + _END
_SIGNER_AT: Final = _SIGNER + _SIGNED_AT
_NONCE_AT: Final = _NONCE + _SIGNER_AT
_BEFORE_NONCE_AT: Final = _BEFORE_NONCE + _NONCE_AT
_MOMENT_AT: Final = _MOMENT + _BEFORE_NONCE_AT
_STREAM_AT: Final = _STREAM + _MOMENT_AT

_OWN_SIGNATURE_AT: Final = _SIGNATURE
_OWN_NONCE_AT: Final = _NONCE + _OWN_SIGNATURE_AT
_OWN_MOMENT_AT: Final = _MOMENT + _OWN_NONCE_AT


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RequestFrame:
    """What requests have in common: the bytes before and between those that each has of its own."""

    head: bytes = field(repr=False)
    before_moment: bytes = field(repr=False)
    before_nonce: bytes = field(repr=False)
    before_signature: bytes = field(repr=False)
    end: bytes = field(repr=False)

    def whole(self, own: bytes) -> bytes:
        """Return a signed request as it was."""
        if not self.end:
            return own
        return b"".join(
            (
                self.head,
                own[:-_OWN_MOMENT_AT],
                self.before_moment,
                own[-_OWN_MOMENT_AT:-_OWN_NONCE_AT],
                self.before_nonce,
                own[-_OWN_NONCE_AT:-_OWN_SIGNATURE_AT],
                self.before_signature,
                own[-_OWN_SIGNATURE_AT:],
                self.end,
            )
        )


_NOTHING_SHARED: Final = RequestFrame(b"", b"", b"", b"", b"")
_frames: Final[WeakValueDictionary[tuple[bytes, ...], RequestFrame]] = WeakValueDictionary()


def framed_request(request: bytes) -> tuple[RequestFrame, bytes]:
    """Return the frame that a request shares with others, and what it has of its own."""
    own_from = request.find(_FILTER) + len(_FILTER)
    if not len(_FILTER) <= own_from <= len(request) - _STREAM_AT:
        return _NOTHING_SHARED, request
    filter_and_moment = request[own_from:-_STREAM_AT] + request[-_MOMENT_AT:-_BEFORE_NONCE_AT]
    own = filter_and_moment + request[-_NONCE_AT:-_SIGNER_AT] + request[-_SIGNED_AT:-_END]
    shared = (
        request[:own_from],
        request[-_STREAM_AT:-_MOMENT_AT],
        request[-_BEFORE_NONCE_AT:-_NONCE_AT],
        request[-_SIGNER_AT:-_SIGNED_AT],
        request[-_END:],
    )
    frame = _frames.get(shared)
    if frame is None:
        frame = _frames[shared] = RequestFrame(*shared)
    return frame, own
