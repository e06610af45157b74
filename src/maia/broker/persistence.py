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
from maia.broker.turn import Turn
from maia.credentials import certificate_from_bytes, certificate_to_bytes
from maia.errors import MaiaError
from maia.routing.duplicates import DuplicateMemory
from maia.wire.effects import Keep

KEPT_CERTIFICATES: Final = "certificates"
KEPT_PUBLICATIONS: Final = "publications"
_KEPT_MAX: Final = 16_384

_DECODER: Final = msgspec.msgpack.Decoder(list[bytes])


def reload_kept(state: BrokerState, kept: Mapping[str, bytes], turn: Turn) -> None:
    """Verify what was kept, and drop what does not hold."""
    _reload_certificates(state, kept.get(KEPT_CERTIFICATES), turn)
    state.types.reload(kept, turn)
    state.requests.reload(kept, turn, latest=seconds_after(turn.now, state.settings.skew_s))
    publications = kept.get(KEPT_PUBLICATIONS)
    if publications is not None:
        limits = memory_limits(state.settings.limits)
        try:
            state.routes.seen.take_over(DuplicateMemory.imported(publications, limits))
        except MaiaError as problem:
            turn.note("kept-dropped", name=KEPT_PUBLICATIONS, code=problem.code)


def _reload_certificates(state: BrokerState, data: bytes | None, turn: Turn) -> None:
    if data is None:
        return
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
    if broken:
        turn.note("kept-dropped", name=KEPT_CERTIFICATES, code=why, dropped=broken)


def keep_what_changed(state: BrokerState, turn: Turn) -> None:
    """Keep what makes the next start faster, and what recognises publications that were here before."""
    known = state.certificates.exported()[-_KEPT_MAX:]
    newest = {signed.id for signed in known}
    if newest != state.certificates_kept:
        state.certificates_kept = newest
        encoded = msgspec.msgpack.encode([certificate_to_bytes(signed) for signed in known])
        turn.add(Keep(KEPT_CERTIFICATES, encoded))
    data = state.routes.seen.exported()
    digest = sha256(data).digest()
    if digest != state.publications_kept:
        state.publications_kept = digest
        memory = Keep(KEPT_PUBLICATIONS, data)
        if state.recording is None:
            turn.add(memory)
        else:
            state.recording.keep_once_safe(memory, turn)
