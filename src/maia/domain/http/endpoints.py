"""What is a page of the HTTP interface? A method, a path, what goes in, what comes out, and who may.

The table of pages is the one place where this is said: routes, authorisation
and the OpenAPI document are all made from it, so none of them can say
something else.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from maia.api.problems import BadCall
from maia.api.requests import Question
from maia.credentials import Principal
from maia.domain.access.results import AdminAct
from maia.domain.http.authentication import BODY_BYTES_MAX, Caller
from maia.events import Instant

__all__ = ["Answer", "Call", "Endpoint", "Handler", "decoded", "question_of"]

_PARAMETER: Final = re.compile(r"\{([a-z_]+)\}")
_Body = TypeVar("_Body")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page answers: a struct of the kind that the table says, or bytes that are kept as they are."""

    # Any: each page has a struct of its own, and the encoder takes them all.
    content: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """One call, read and let in."""

    caller: Caller | None
    # Any: each page says which struct its body is, and its handler is written for that one.
    body: Any
    question: Any
    path: Mapping[str, str]
    now: Instant
    act: AdminAct | None = None
    """What the caller's certificates must allow; asked where the act is done, and nothing in between."""

    @property
    def actor(self) -> Principal:
        """Return who calls; public pages do not ask."""
        if self.caller is None:
            raise TypeError("a public page has no caller")
        return self.caller.principal


Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One page."""

    method: str
    path: str
    handler: Handler
    summary: str
    answer: type
    body: type | None = None
    question: type[Question] | None = None
    act: AdminAct | None = None
    """What an administrator's certificates must allow; None where the caller needs none."""
    is_public: bool = False
    """Whether an unsigned call is answered."""
    takes_key: bool = False
    """Whether an idempotency key is heeded: for whatever issues something."""
    tag: str = "domain"
    answers_with: int = 200
    takes_away: bool = False
    """Whether it answers 202 where no broker has taken on yet what it took away."""
    body_max: int = BODY_BYTES_MAX

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the path's parameters."""
        return tuple(_PARAMETER.findall(self.path))


def decoded(body: bytes, kind: type[_Body]) -> _Body:
    """Read a JSON body strictly; say where it is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        shown = str(problem).encode("unicode_escape").decode()[:300]
        raise BadCall(f"the body is not what this page takes: {shown}") from None


def question_of(pairs: list[tuple[str, str]], kind: type[_Body]) -> _Body:
    """Read a query strictly: no word twice, none unknown."""
    words = dict(pairs)
    if len(words) != len(pairs):
        raise BadCall("a word of the query came twice")
    try:
        return msgspec.convert(words, type=kind, strict=False)
    except msgspec.MsgspecError as problem:
        shown = str(problem).encode("unicode_escape").decode()[:300]
        raise BadCall(f"the query is not what this page takes: {shown}") from None
