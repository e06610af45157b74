"""What survives a restart, and is it still to be believed?

Definitions, verified certificates and the requests that were heard are kept
as bytes. A file is a hint on what to check early, never a proof (C10): each
signature is checked again, and what does not hold is dropped with a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec

from maia.broker.routing.routes import memory_limits
from maia.broker.state import BrokerState, seconds_after
from maia.credentials import certificate_from_bytes, certificate_to_bytes
from maia.errors import MaiaError
from maia.events import Instant
from maia.routing.duplicates import DuplicateMemory
from maia.wire.effects import Effect, Keep, Note

__all__ = ["KEPT_CERTIFICATES", "KEPT_PUBLICATIONS", "keep_what_changed", "reload_kept"]

KEPT_CERTIFICATES: Final = "certificates"
KEPT_PUBLICATIONS: Final = "publications"
_KEPT_MAX: Final = 16_384

_DECODER: Final = msgspec.msgpack.Decoder(list[bytes])


def reload_kept(state: BrokerState, kept: Mapping[str, bytes], now: Instant) -> list[Effect]:
    """Verify what was kept, and drop what does not hold."""
    latest = seconds_after(now, state.settings.skew_s)
    return [
        *_reload_certificates(state, kept.get(KEPT_CERTIFICATES)),
        *state.types.reload(kept, now),
        *state.requests.reload(kept, now=now, latest=latest),
        *_reload_publications(state, kept.get(KEPT_PUBLICATIONS)),
    ]


def keep_what_changed(state: BrokerState) -> list[Effect]:
    """Keep what makes the next start faster, and what recognises publications that were here before."""
    return [*_keep_certificates(state), *_keep_publications(state)]


def _keep_publications(state: BrokerState) -> list[Effect]:
    data = state.routes.seen.exported()
    digest = sha256(data).digest()
    if digest == state.publications_kept:
        return []
    state.publications_kept = digest
    memory = Keep(KEPT_PUBLICATIONS, data)
    return [memory] if state.recording is None else state.recording.keep_once_safe(memory)


def _reload_publications(state: BrokerState, data: bytes | None) -> list[Effect]:
    if data is None:
        return []
    try:
        state.routes.seen = DuplicateMemory.imported(data, memory_limits(state.settings.limits))
    except MaiaError as problem:
        return [Note("kept-dropped", {"name": KEPT_PUBLICATIONS, "code": problem.code})]
    return []


def _keep_certificates(state: BrokerState) -> list[Effect]:
    """Keep the certificates that were verified most recently, if there are new ones."""
    known = state.certificates.exported()[-_KEPT_MAX:]
    newest = {signed.id for signed in known}
    if newest == state.certificates_kept:
        return []
    state.certificates_kept = newest
    data = msgspec.msgpack.encode([certificate_to_bytes(signed) for signed in known])
    return [Keep(KEPT_CERTIFICATES, data)]


def _reload_certificates(state: BrokerState, data: bytes | None) -> list[Effect]:
    if data is None:
        return []
    try:
        kept = _DECODER.decode(data)[:_KEPT_MAX]
    except msgspec.MsgspecError:
        return _dropped(1, "unreadable")
    broken = 0
    for one in kept:
        try:
            state.certificates.check(certificate_from_bytes(one))
        except MaiaError:
            broken += 1
    return _dropped(broken, "broken") if broken else []


def _dropped(how_many: int, why: str) -> list[Effect]:
    return [Note("kept-dropped", {"name": KEPT_CERTIFICATES, "code": why, "dropped": how_many})]
