"""In which ways does a governed table say no, beside those of the policy kernel?

Sentences are for the author of the job. They name columns, types and
moments; never a key, and never a restriction that hides something.
"""

from __future__ import annotations

from maia.errors import BadInput, Refusal, Unavailable

__all__ = [
    "BadMoments",
    "FramesForgotten",
    "GrantEnded",
    "NameTaken",
    "NoKeys",
    "NoSuchColumn",
    "NotThisStream",
    "ReaderDistrusted",
    "RightsCut",
    "SignerNotEntitled",
    "TooManyPeriods",
    "UnknownTerms",
]


class RightsCut(UserWarning):
    """The reader holds more grants than are counted, so that the table may show less than was granted."""


class ReaderDistrusted(Refusal):
    """The reader was put out by the domain, whatever its certificates say of the past."""

    code = "PIPELINE-READER-DISTRUSTED"


class GrantEnded(Refusal):
    """The right behind a governed table was taken back; ask for the table again."""

    code = "PIPELINE-GRANT-ENDED"


class TooManyPeriods(BadInput):
    """Certificates begin and end more often in the period than one table allows."""

    code = "PIPELINE-PERIODS"


class BadMoments(BadInput):
    """The period asked for ends before it begins."""

    code = "PIPELINE-MOMENTS"


class NoSuchColumn(BadInput):
    """A column was asked for that the reader's version of the type does not have."""

    code = "PIPELINE-COLUMN"


class NameTaken(BadInput):
    """An attribute has the name of one of the columns about the event itself."""

    code = "PIPELINE-NAME-TAKEN"


class UnknownTerms(BadInput):
    """A right depends on an attribute that no version at hand declares."""

    code = "PIPELINE-UNKNOWN-TERMS"


class NoKeys(Unavailable):
    """The type is sealed, and nothing was handed over that opens it."""

    code = "PIPELINE-NO-KEYS"


class SignerNotEntitled(Refusal):
    """A frame was signed by a principal without the right to publish it at that time."""

    code = "PIPELINE-SIGNER"


class FramesForgotten(Unavailable):
    """The log has removed frames that a stream has not read."""

    code = "PIPELINE-FRAMES-FORGOTTEN"


class NotThisStream(BadInput):
    """A checkpoint belongs to another stream, another type or another log."""

    code = "PIPELINE-CHECKPOINT"
