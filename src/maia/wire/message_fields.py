"""Of which parts are messages made, and how large may each of them be?

All files of messages ask here. A bound in this file is checked when a
message is read, before anything is done with it.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from maia.events import INSTANT_MAX, INSTANT_MIN, ROWS_MAX

Digest: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Key: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Token: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
Position: TypeAlias = Annotated[bytes, Meta(min_length=24, max_length=24)]
"""A place in a broker's event log, sealed: only that broker can read it."""
Small: TypeAlias = Annotated[bytes, Meta(max_length=1 << 16)]
# What people read is one line: no control characters, and nothing that turns a line around on a screen.
TEXT_MAX: Final = 1024
NOT_FOR_SCREENS: Final = "\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_MAX, pattern=rf"\A[^{NOT_FOR_SCREENS}]*\Z")]
Code: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Z][A-Z0-9-]{0,63}\Z")]
Address: TypeAlias = Annotated[str, Meta(pattern=r"\A[!-~]{1,256}\Z")]
RouteKey: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=39)]
"""A name of the routing table: the id of a type, and a mark behind it for sealed publications."""
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
REFERENCES_MAX: Final = 1 << 16
References: TypeAlias = Annotated[list[Number], Meta(max_length=REFERENCES_MAX)]
Moment: TypeAlias = Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
Rows: TypeAlias = Annotated[int, Meta(ge=1, le=ROWS_MAX)]
Uid: TypeAlias = Annotated[str, Meta(max_length=64)]
DurableName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"\A[!-~]+\Z")]
Credentials: TypeAlias = Annotated[list[Small], Meta(max_length=256)]
Signature: TypeAlias = Annotated[bytes, Meta(min_length=64, max_length=64)]
SignedEpochBytes: TypeAlias = Annotated[bytes, Meta(max_length=1 << 18)]
StatementBytes: TypeAlias = Annotated[bytes, Meta(max_length=1 << 21)]
RequirementBytes: TypeAlias = Annotated[bytes, Meta(max_length=4096)]
IdentityBytes: TypeAlias = Annotated[bytes, Meta(min_length=1, max_length=1 << 14)]
QuestionBytes: TypeAlias = Annotated[bytes, Meta(max_length=512)]
AnswerBytes: TypeAlias = Annotated[bytes, Meta(max_length=1024)]


class AnyMessage(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What all messages share: arrays, frozen, nothing unknown."""
