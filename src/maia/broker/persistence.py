"""What survives a restart, and does it still hold?

Definitions, verified certificates and the requests that were received are kept
as bytes. A file is a hint on what to check early, never a proof (C10): each
signature is checked again, and what does not hold is dropped with a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import msgspec

from maia.broker.interests.named_rights import NamedRights
from maia.broker.interests.routes import Routes, memory_limits
from maia.broker.log.recording import Recording
from maia.broker.own import Own
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.replay_journal import ReplayJournal
from maia.broker.turn import Turn
from maia.credentials import VerificationCache, certificate_from_bytes, certificate_to_bytes
from maia.errors import MaiaError
from maia.events import seconds_after
from maia.routing.duplicates import DuplicateMemory
from maia.wire.effects import Keep

KEPT_CERTIFICATES: Final = "certificates"
KEPT_PUBLICATIONS: Final = "publications"
_KEPT_MAX: Final = 16_384

_DECODER: Final = msgspec.msgpack.Decoder(list[bytes])


@dataclass(slots=True, eq=False, repr=False)
class Persistence:
    """What is kept over a restart."""

    own: Own
    certificates: VerificationCache
    types: KnownTypes
    replays: ReplayJournal
    routes: Routes
    recording: Recording | None
    named_rights: NamedRights
    certificates_kept: set[bytes] = field(default_factory=set)
    publications_kept: bytes = b""

    def reload_kept(self, kept: Mapping[str, bytes], turn: Turn) -> None:
        """Verify what was kept, and drop what does not hold."""
        self._reload_certificates(kept.get(KEPT_CERTIFICATES), turn)
        self.types.reload(kept, turn)
        self.named_rights.reload(kept)
        self.replays.reload(kept, turn, latest=seconds_after(turn.now, self.own.settings.skew_s))
        publications = kept.get(KEPT_PUBLICATIONS)
        if publications is not None:
            limits = memory_limits(self.own.settings.limits)
            try:
                self.routes.seen.take_over(DuplicateMemory.imported(publications, limits))
            except MaiaError as problem:
                turn.note("kept-dropped", name=KEPT_PUBLICATIONS, code=problem.code)

    def _reload_certificates(self, data: bytes | None, turn: Turn) -> None:
        if data is None:
            return
        broken, why = 0, "broken"
        try:
            kept = _DECODER.decode(data)[:_KEPT_MAX]
        except msgspec.MsgspecError:
            kept, broken, why = [], 1, "unreadable"
        for one in kept:
            try:
                self.certificates.check(certificate_from_bytes(one))
            except MaiaError:
                broken += 1
        if broken:
            turn.note("kept-dropped", name=KEPT_CERTIFICATES, code=why, dropped=broken)

    def keep_what_changed(self, turn: Turn) -> None:
        """Keep what makes the next start faster, and what recognises publications that were here before."""
        known = self.certificates.exported()[-_KEPT_MAX:]
        newest = {signed.id for signed in known}
        if newest != self.certificates_kept:
            self.certificates_kept = newest
            encoded = msgspec.msgpack.encode([certificate_to_bytes(signed) for signed in known])
            turn.add(Keep(KEPT_CERTIFICATES, encoded))
        data = self.routes.seen.exported()
        digest = sha256(data).digest()
        if digest != self.publications_kept:
            self.publications_kept = digest
            memory = Keep(KEPT_PUBLICATIONS, data)
            if self.recording is None:
                turn.add(memory)
            else:
                self.recording.keep_once_safe(memory, turn)
