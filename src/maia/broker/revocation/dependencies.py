"""Who here rests on this certificate?

When a certificate is revoked, exactly those are asked about again whose right
was decided from it, and nobody else is looked at (P7). A right names the
certificates that it rests on (`Right.watched`); here they lead to the links
on which such rights stand. What a link no longer rests on may be remembered
until the link is gone: it is then asked about once too often.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from maia.wire.effects import LinkId

__all__ = ["DependencyIndex"]


class DependencyIndex:
    """Links by the ids of the certificates that something on them rests on."""

    __slots__ = ("_by_certificate", "_by_link", "_last")

    def __init__(self) -> None:
        """Begin with nothing that rests on anything."""
        # Most certificates speak for one link alone; a set for each would be most of what this holds.
        self._by_certificate: dict[bytes, LinkId | set[LinkId]] = {}
        self._by_link: dict[LinkId, set[bytes]] = {}
        self._last: dict[LinkId, frozenset[bytes]] = {}

    def __len__(self) -> int:
        """Return how many certificates something rests on."""
        return len(self._by_certificate)

    def __contains__(self, certificate: bytes) -> bool:
        """Say whether anything rests on a certificate."""
        return certificate in self._by_certificate

    def note(self, link: LinkId, watched: frozenset[bytes]) -> None:
        """Remember that something on a link rests on these certificates."""
        # By identity: the rights of one client are decided from the same evidence, and share it.
        if not watched or self._last.get(link) is watched:
            return
        self._last[link] = watched
        known = self._by_link.setdefault(link, set())
        for certificate in watched - known:
            self._add(certificate, link)
        known |= watched

    def _add(self, certificate: bytes, link: LinkId) -> None:
        before = self._by_certificate.get(certificate)
        if before is None:
            self._by_certificate[certificate] = link
        elif isinstance(before, set):
            before.add(link)
        else:
            self._by_certificate[certificate] = {before, link}

    def forget(self, link: LinkId) -> None:
        """Forget a link that is gone."""
        self._last.pop(link, None)
        for certificate in self._by_link.pop(link, ()):
            before = self._by_certificate[certificate]
            if isinstance(before, set):
                before.discard(link)
                if before:
                    continue
            del self._by_certificate[certificate]

    def keep_only(self, link: LinkId, certificates: Collection[bytes]) -> None:
        """Forget that anything on a link rests on other certificates than these."""
        known = frozenset(self._by_link.get(link, set()).intersection(certificates))
        self.forget(link)
        self.note(link, known)

    def links_on(self, certificates: Iterable[bytes]) -> tuple[LinkId, ...]:
        """Return the links on which something may rest on one of these certificates, in one order."""
        found: set[LinkId] = set()
        for certificate in certificates:
            links = self._by_certificate.get(certificate)
            if isinstance(links, set):
                found |= links
            elif links is not None:
                found.add(links)
        return tuple(sorted(found))

    def certificates_on(self, link: LinkId) -> Collection[bytes]:
        """Return the certificates that something on a link rests on, or once did."""
        return self._by_link.get(link, ())
