"""What a domain's service tells its key groups of what was taken away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from maia.domain.access.results import Revoked
from maia.domain.server import service as domain_service
from maia.domain.server.service import DomainService
from support.domain_server import key_of


class Groups:
    """Key groups that count how often they hear of each id."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.service = DomainService(None, key_of("met"), on_revoked=self._hear)  # type: ignore[arg-type]

    def _hear(self, ids: Iterable[bytes]) -> None:
        self.heard += sorted(ids)

    def fall(self, *ids: bytes) -> None:
        asyncio.run(self.service.announce([Revoked(ids=ids)]))


def test_key_groups_hear_once_of_what_was_taken_away() -> None:
    groups = Groups()
    groups.fall(b"a", b"b")
    groups.fall(b"a", b"b", b"c")
    assert groups.heard == [b"a", b"b", b"c"]


def test_what_key_groups_were_told_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_service, "NOTIFIED_MAX", 8)
    groups, ids = Groups(), [bytes([number]) for number in range(100)]
    for one in ids:
        groups.fall(one)
        assert len(groups.service._notified) <= 8  # that it is bounded is the claim
    assert groups.heard == ids
    groups.fall(*ids[:6])
    groups.fall(*ids[:6])
    assert groups.heard == [*ids, *ids[:6]], "what was forgotten is told again, and then remembered"
