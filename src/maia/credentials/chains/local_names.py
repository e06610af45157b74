"""Whom does a local name mean?

Each principal has a namespace of its own. `K "brokers"` means the subject that a name
certificate of K says it means, and there may be many: a name is a group. Names
link: `K "sergeant" "partner"` asks every sergeant of K for a partner. This is
the 4-tuple reduction of SPKI (dissertation 2.6.2, 2.6.3), one rewriting step
per certificate. Verifier and search ask; the answer is always a principal or
a threshold, with the certificates that led there.

Only its owner can define a name in a namespace, and a name that
leads back to itself means no principal. The walk is counted in steps and the length
of a name is bounded, so certificates that grow names without end are harmless.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from maia.credentials.certificate import NameCertificate, SignedCertificate
from maia.credentials.chains.budget import Budget
from maia.credentials.encoding.subjects import LINKED_NAMES_MAX
from maia.credentials.principals import LocalName, Principal, Subject, Threshold
from maia.credentials.validity.period import UNBOUNDED, Validity

__all__ = [
    "Meaning",
    "NameBook",
    "Terminal",
    "name_book",
    "rewritten",
]

Terminal: TypeAlias = Principal | Threshold
"""What is left when no name is."""

_Place: TypeAlias = tuple[LocalName, frozenset[bytes]]
"""A name on the way to a meaning, and the doubtful certificates that were passed to get there."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """One thing that a name means, and the name certificates that say so, first step first."""

    subject: Terminal
    through: tuple[SignedCertificate, ...]

    @property
    def validity(self) -> Validity:
        """Return when the name means this."""
        period = UNBOUNDED
        for signed in self.through:
            period = period.intersection(signed.certificate.validity)
        return period


def rewritten(name: LocalName, definition: NameCertificate) -> Subject | None:
    """Return `name` after one 4-tuple reduction step; None where the definition does not apply.

    `(K, a) -> S` turns `K a b c` into `S b c`. A threshold has no namespace,
    so it may only be where no word is left.
    """
    if not name.names or definition.issuer != name.space or definition.name != name.names[0]:
        return None
    rest = name.names[1:]
    match definition.subject:
        case Threshold() as threshold:
            return None if rest else threshold
        case Principal() as principal:
            return LocalName(principal, rest) if rest else principal
        case LocalName(space, names):
            longer = names + rest
            return LocalName(space, longer) if names and len(longer) <= LINKED_NAMES_MAX else None


@dataclass(slots=True)
class NameBook:
    """Name certificates by the name they define; remembers what it has looked up.

    `accepts` is asked of each certificate before it is used, and not earlier:
    a forged definition must not come before a genuine one, and the many that
    no walk meets should cost no signature check.
    """

    definitions: dict[tuple[bytes, str], list[SignedCertificate]]
    accepts: Callable[[SignedCertificate], bool]
    doubtful: frozenset[bytes] = frozenset()
    """The ids of certificates that may turn out not to serve: ways that differ in these are all found."""
    _known: dict[LocalName, tuple[Meaning, ...]] = field(default_factory=dict)

    def meanings(self, subject: Subject, budget: Budget) -> tuple[Meaning, ...]:
        """Return everything that `subject` means, the nearest first; itself if it is no name."""
        if not isinstance(subject, LocalName):
            return (Meaning(subject, ()),)
        known = self._known.get(subject)
        if known is None:
            known = self._known[subject] = tuple(self._walk(subject, budget))
        return known

    def _walk(self, name: LocalName, budget: Budget) -> list[Meaning]:
        """Walk breadth first, so that each meaning is found by its shortest derivation."""
        found: dict[tuple[Terminal, frozenset[bytes]], Meaning] = {}
        start: _Place = (name, frozenset())
        # How each name was reached: the place before it, and the certificate between the two.
        reached: dict[_Place, tuple[_Place, SignedCertificate] | None] = {start: None}
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            for signed in self._defining(here[0]):
                budget.spend()
                definition = signed.certificate
                after = rewritten(here[0], definition) if isinstance(definition, NameCertificate) else None
                passed = here[1] | {signed.id} if signed.id in self.doubtful else here[1]
                if isinstance(after, LocalName):
                    if (after, passed) not in reached:
                        reached[after, passed] = (here, signed)
                        waiting.append((after, passed))
                elif after is not None and (after, passed) not in found:
                    found[after, passed] = Meaning(after, (*_way_to(here, reached), signed))
        return list(found.values())

    def _defining(self, name: LocalName) -> Iterator[SignedCertificate]:
        filed = self.definitions.get((name.space.key, name.names[0]), ()) if name.names else ()
        return filter(self.accepts, filed)


def name_book(
    certificates: Iterable[SignedCertificate],
    accepts: Callable[[SignedCertificate], bool],
    doubtful: frozenset[bytes] = frozenset(),
) -> NameBook:
    """File name certificates by the name they define; others are left out.

    Of two that say the same, the one that lasts longer comes first: an old
    certificate must not shorten what its renewal grants.
    """
    definitions: dict[tuple[bytes, str], list[SignedCertificate]] = {}
    for signed in certificates:
        definition = signed.certificate
        if isinstance(definition, NameCertificate):
            definitions.setdefault((definition.issuer.key, definition.name), []).append(signed)
    for filed in definitions.values():
        filed.sort(key=_longest_first)
    return NameBook(definitions, accepts, doubtful)


def _longest_first(signed: SignedCertificate) -> tuple[bool, int, bytes, bytes]:
    until = signed.certificate.validity.not_after
    return (until is not None, -(until or 0), signed.id, signed.signature)


def _way_to(
    place: _Place, reached: dict[_Place, tuple[_Place, SignedCertificate] | None]
) -> tuple[SignedCertificate, ...]:
    way: list[SignedCertificate] = []
    before = reached[place]
    while before is not None:
        place, signed = before
        way.append(signed)
        before = reached[place]
    return tuple(reversed(way))
