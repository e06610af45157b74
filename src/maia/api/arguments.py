"""What do the arguments and periods of a call mean, and how are they written?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from maia.api.requests import ApiArgument, Period, TypedArgument
from maia.credentials import Principal, Validity, principal_from_text
from maia.credentials.appointments import Argument, Given, Word
from maia.errors import BadInput
from maia.events import Instant


def argument(value: ApiArgument) -> Given:
    """Return what an argument means."""
    match value:
        case TypedArgument(timestamp=str(text), principal=None, word=None):
            return moment(text)
        case TypedArgument(timestamp=None, principal=str(text), word=None):
            return principal_from_text(text)
        case TypedArgument(timestamp=None, principal=None, word=str(text)):
            return Word(text)
        case TypedArgument():
            raise BadInput(
                "INPUT-API-CALL", "an argument is a `timestamp`, a `principal` or a `word`, one of them"
            )
        case float() if not math.isfinite(value):
            raise BadInput("INPUT-API-CALL", "a number is neither infinite nor undefined")
        case plain:
            return plain


def arguments(values: Sequence[ApiArgument]) -> tuple[Given, ...]:
    """Return what arguments mean."""
    return tuple(argument(value) for value in values)


def written(value: Argument) -> ApiArgument:
    """Return an argument as JSON has it."""
    match value:
        case Instant():
            return TypedArgument(timestamp=str(value))
        case Principal():
            return TypedArgument(principal=str(value))
        case plain:
            return plain


def moment(text: str) -> Instant:
    """Read a moment."""
    return Instant.parse(text)


def validity(period: Period) -> Validity:
    """Read a period; both bounds are stated, none is left to a default."""
    start, end = (
        None if bound == "unbounded" else moment(bound) for bound in (period.not_before, period.not_after)
    )
    found = Validity(start, end)
    if found.is_empty:
        raise BadInput("INPUT-API-CALL", "a period ends before it begins")
    return found
