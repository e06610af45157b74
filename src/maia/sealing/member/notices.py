"""Which notices does a key member give its broker?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from maia.credentials import Principal
from maia.sessions.challenges import Challenged

__all__ = ["Challenged", "KeysChanged", "KeysRefused", "Notice", "WriterTold"]


@dataclass(frozen=True, slots=True)
class KeysChanged:
    """The ring of a type has other keys than before: what waited for them may be tried again."""

    type_id: bytes


@dataclass(frozen=True, slots=True)
class KeysRefused:
    """The manager lets this member into no group of the type, and says why."""

    type_id: bytes
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class WriterTold:
    """A publisher's certificates, from the manager; none if it does not know."""

    type_id: bytes
    principal: Principal


Notice: TypeAlias = Challenged | KeysChanged | KeysRefused | WriterTold
