"""What can go wrong, and what is it called?

Programs match on `code`, which never changes once released; people read the
sentence, which may improve. Every error that a user can cause is one of the
five families below. A family says who should act: the person refused, the
issuer of a credential, the peer, the operator, or the author of the input.

`raise Refusal("POLICY-RATE", "...")`: what a code means stands in the table
`errors.toml` of the room that raises it. A class of its own is for an error
that some code catches.
"""

from __future__ import annotations

__all__ = [
    "BadInput",
    "BrokenCredential",
    "ExtraMissing",
    "MaiaError",
    "ProtocolViolation",
    "Refusal",
    "Unavailable",
]


class MaiaError(Exception):
    """The root of every error that Maia raises on purpose."""

    code: str = "MAIA"

    def __init__(self, code: str, message: str | None = None) -> None:
        """Take the code and the sentence; the sentence is enough for a class that is one code."""
        if message is None:
            message = code
        else:
            self.code = code
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        """Have it raised in another process as it was in one, whatever its class is made from."""
        return _rebuilt, (type(self), self.args), self.__dict__

    @property
    def message(self) -> str:
        """Return the sentence for people, without the code."""
        return super().__str__()

    def as_record(self) -> dict[str, object]:
        """Return the error as named fields, for `--json` and for structured logs."""
        return {"code": self.code, "message": self.message}


def _rebuilt(kind: type[MaiaError], args: tuple[object, ...]) -> MaiaError:
    return kind.__new__(kind, *args)


class Refusal(MaiaError):
    """Policy said no: the request was understood and is not permitted."""

    code = "REFUSED"


class BrokenCredential(MaiaError):
    """A certificate, signature, chain or signed definition does not hold."""

    code = "CREDENTIAL"


class ProtocolViolation(MaiaError):
    """A peer said something that the protocol does not allow at this point."""

    code = "PROTOCOL"


class Unavailable(MaiaError):
    """Something Maia depends on is missing, busy or cannot be reached."""

    code = "UNAVAILABLE"


class ExtraMissing(Unavailable):
    """This part of Maia was not installed; the sentence says how to install it."""

    code = "UNAVAILABLE-EXTRA"


class BadInput(MaiaError):
    """The author of this input can mend it: a filter, a file, a value, an option."""

    code = "INPUT"
