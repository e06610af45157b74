"""Was this very request made before?

A client that lost the answer asks again with the same idempotency key, and
gets the same answer: nothing is issued twice. A signed request that somebody
replays is refused by its nonce. Both memories survive a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from maia.credentials import Principal
from maia.domain.access.refusals import AnswerBelongsToAnotherRequest, ReplayedRequest, ServiceFull
from maia.domain.access.settings import AccessSettings
from maia.domain.access.unit_of_work import add_to
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import ANSWERS, NONCES, AnswerRow, NonceRow
from maia.events import Instant

__all__ = ["answered_once", "forget_old", "use_nonce"]

_SECOND: Final = 1_000_000
_KEY_MAX: Final = 200
_COUNT: Final = "answers"


def answered_once(
    tables: Tables,
    key: str,
    request: bytes,
    act: Callable[[], bytes],
    *,
    actor: Principal,
    now: Instant,
    settings: AccessSettings,
) -> bytes:
    """Return the answer that is remembered under `key`, or act and remember it."""
    if not 0 < len(key) <= _KEY_MAX:
        raise AnswerBelongsToAnotherRequest(f"an idempotency key has 1 to {_KEY_MAX} characters")
    known = tables.get(ANSWERS, actor.key, key)
    if known is not None and known.until >= now:
        if known.request != request:
            raise AnswerBelongsToAnotherRequest("the idempotency key was used for another request")
        return known.answer
    if known is None and tables.count(ANSWERS, ANSWERS.c.actor == actor.key) >= settings.limits.answers_each:
        raise ServiceFull(f"at most {settings.limits.answers_each} answers are remembered for one principal")
    answer = act()
    if len(answer) > settings.limits.answer_bytes:
        raise ServiceFull(f"an answer has at most {settings.limits.answer_bytes} bytes")
    if add_to(tables, _COUNT, int(known is None)) > settings.limits.remembered_answers:
        raise ServiceFull(f"at most {settings.limits.remembered_answers} answers are remembered")
    until = now + settings.answers_kept_s * _SECOND
    tables.put(ANSWERS, [AnswerRow(actor.key, key, request, answer, until)])
    return answer


def use_nonce(tables: Tables, principal: Principal, nonce: bytes, *, until: Instant, now: Instant) -> None:
    """Remember a nonce; refuse one that is remembered."""
    if tables.get(NONCES, principal.key, nonce) is not None:
        raise ReplayedRequest("this request was made before")
    tables.put(NONCES, [NonceRow(principal.key, nonce, max(until, now))])


def forget_old(tables: Tables, now: Instant) -> None:
    """Remove what is remembered no longer."""
    add_to(tables, _COUNT, -tables.delete(ANSWERS, ANSWERS.c.until <= now - 1))
    tables.delete(NONCES, NONCES.c.until <= now - 1)
