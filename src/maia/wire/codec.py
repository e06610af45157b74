"""Which bytes are a message, and which message are these bytes?

Nodes ask on every message. Every message has exactly one form in bytes: a
field more or less, a value out of range, another spelling of a number, or
bytes behind the end are refused. `decode` raises a `ProtocolViolation` on
whatever it does not return a message for, and `encode` returns nothing that
`decode` would refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from maia.errors import ProtocolViolation
from maia.wire.framing import MESSAGE_BYTES_MAX
from maia.wire.message_fields import NOT_FOR_SCREENS, TEXT_MAX, AnyMessage
from maia.wire.messages import (
    Bye,
    Carried,
    Deliver,
    DeliverLogged,
    Ended,
    Failed,
    Message,
    Publish,
    Published,
    Recorded,
    Sealed,
    SealedWithPlaintext,
    Unblinded,
    Warned,
    Welcome,
)

_Read = TypeVar("_Read")
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[Message]] = msgspec.msgpack.Decoder(Message)
_RECORDED: Final[msgspec.msgpack.Decoder[Recorded]] = msgspec.msgpack.Decoder(Recorded)
_COMPLAINTS: Final = (Bye, Failed, Ended, Warned)
_UNSHOWABLE: Final = re.compile(f"[{NOT_FOR_SCREENS}\ud800-\udfff]")


def beginning_of(kind: type[AnyMessage]) -> bytes:
    """Return the bytes with which every message of a kind begins: how many parts it has, and its number."""
    fields = len(kind.__struct_fields__)
    return _ENCODER.encode([kind.__struct_config__.tag, *[None] * fields])[:-fields]


_WELCOME: Final = beginning_of(Welcome)


class Unsendable(ProtocolViolation):
    """A message was to be sent that every peer would refuse: a mistake of this node."""

    code = "PROTOCOL-UNSENDABLE"


def encode(message: Message) -> bytes:
    """Return the bytes of a message; a complaint is cut and escaped so that it can always be sent."""
    if isinstance(message, _COMPLAINTS):
        message = _showable(message)
    try:
        data = _ENCODER.encode(message)
        # What a peer would refuse fails here, where the mistake is, and not at the peer.
        _DECODER.decode(data)
    except (msgspec.MsgspecError, OverflowError, TypeError, ValueError) as problem:
        raise Unsendable(f"a `{type(message).__name__}` cannot be sent: {problem}") from problem
    if len(data) > MESSAGE_BYTES_MAX:
        raise Unsendable(f"a `{type(message).__name__}` of {len(data)} bytes is too long to be sent")
    return data


def encode_known(
    message: Carried
    | Deliver
    | DeliverLogged
    | Ended
    | Publish
    | Published
    | Sealed
    | SealedWithPlaintext
    | Unblinded,
) -> bytes:
    """Return the bytes of a message all of whose parts were read from messages or counted here.

    These go out with every frame, and cannot hold what `decode` would refuse;
    `encode` would read them again to be sure.
    """
    data = _ENCODER.encode(message)
    if len(data) > MESSAGE_BYTES_MAX:
        raise Unsendable(f"a `{type(message).__name__}` of {len(data)} bytes is too long to be sent")
    return data


def _decoded(decoder: msgspec.msgpack.Decoder[_Read], data: bytes) -> _Read:
    if len(data) > MESSAGE_BYTES_MAX:
        raise ProtocolViolation(
            "PROTOCOL-MESSAGE-TOO-LARGE",
            f"a message of {len(data)} bytes is longer than the {MESSAGE_BYTES_MAX} allowed",
        )
    try:
        message = decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise ProtocolViolation(
            "PROTOCOL-MESSAGE", f"the message cannot be read: {sendable_text(str(problem))}"
        ) from problem
    # MessagePack can spell one number in several ways; we know one.
    if _ENCODER.encode(message) != data:
        raise ProtocolViolation(
            "PROTOCOL-MESSAGE-FORM", f"the `{type(message).__name__}` is not written in its one form"
        )
    return message


decode: Final[Callable[[bytes], Message]] = partial(_decoded, _DECODER)
"""Return the message that these bytes are, strictly."""

decode_recorded: Final[Callable[[bytes], Recorded]] = partial(_decoded, _RECORDED)
"""Return the frame that a log has kept in these bytes, as strictly."""


def is_welcome(data: bytes) -> bool:
    """Return whether these bytes begin as a `Welcome`: after it, either side may send longer messages."""
    return data.startswith(_WELCOME)


def sendable_text(text: str) -> str:
    """Return `text` as one line for people: bounded, and with whatever moves a cursor escaped."""
    # One character more than there is room for tells a text that was cut from one that fits.
    shown = _UNSHOWABLE.sub(lambda found: ascii(found.group())[1:-1], text[: TEXT_MAX + 1])
    return shown if len(shown) <= TEXT_MAX else shown[: TEXT_MAX - 1] + "…"


def _showable(complaint: Bye | Failed | Ended | Warned) -> Bye | Failed | Ended | Warned:
    text = sendable_text(complaint.message)
    return complaint if text == complaint.message else msgspec.structs.replace(complaint, message=text)
