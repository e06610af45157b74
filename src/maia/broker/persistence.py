"""What survives a restart, and does it still hold?

Definitions, verified certificates and the requests that were received are kept
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

KEPT_CERTIFICATES: Final = "certificates"
KEPT_PUBLICATIONS: Final = "publications"
_KEPT_MAX: Final = 16_384

_DECODER: Final = msgspec.msgpack.Decoder(list[bytes])


def reload_kept(state: BrokerState, kept: Mapping[str, bytes], now: Instant) -> list[Effect]:
    """Verify what was kept, and drop what does not hold."""
    effects = _reload_certificates(state, kept.get(KEPT_CERTIFICATES))
    effects += state.types.reload(kept, now)
    latest = seconds_after(now, state.settings.skew_s)
    effects += state.requests.reload(kept, now=now, latest=latest)
    publications = kept.get(KEPT_PUBLICATIONS)
    if publications is not None:
        limits = memory_limits(state.settings.limits)
        try:
            state.routes.seen.take_over(DuplicateMemory.imported(publications, limits))
        except MaiaError as problem:
            effects.append(Note("kept-dropped", {"name": KEPT_PUBLICATIONS, "code": problem.code}))
    return effects


def _reload_certificates(state: BrokerState, data: bytes | None) -> list[Effect]:
    if data is None:
        return []
    broken, why = 0, "broken"
    try:
        kept = _DECODER.decode(data)[:_KEPT_MAX]
    except msgspec.MsgspecError:
        kept, broken, why = [], 1, "unreadable"
    for one in kept:
        try:
            state.certificates.check(certificate_from_bytes(one))
        except MaiaError:
            broken += 1
    fields = {"name": KEPT_CERTIFICATES, "code": why, "dropped": broken}
    return [Note("kept-dropped", fields)] if broken else []


def keep_what_changed(state: BrokerState) -> list[Effect]:
    """Keep what makes the next start faster, and what recognises publications that were here before."""
    effects: list[Effect] = []
    known = state.certificates.exported()[-_KEPT_MAX:]
    newest = {signed.id for signed in known}
    if newest != state.certificates_kept:
        state.certificates_kept = newest
        encoded = msgspec.msgpack.encode([certificate_to_bytes(signed) for signed in known])
        effects.append(Keep(KEPT_CERTIFICATES, encoded))
    data = state.routes.seen.exported()
    digest = sha256(data).digest()
    if digest != state.publications_kept:
        state.publications_kept = digest
        memory = Keep(KEPT_PUBLICATIONS, data)
        effects += [memory] if state.recording is None else state.recording.keep_once_safe(memory)
    return effects
