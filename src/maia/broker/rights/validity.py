"""Which validity statements does this broker need, which has it, and what depends on them?

A certificate may demand that a tester states that it still counts (dissertation
6.2). `ValidityTracker` knows the testers of all rights that are held here, what
they have stated (`Monitor`). Statements arrive as
frames of each issuer's validity stream, or are shown by peers. The tracker says which
certificates in use a statement, or its end, concerns; `sessions/revocation.py` does
what follows from that.

`DependencyIndex` leads from a certificate to the links on which something was decided
from it. When a certificate is revoked, exactly those are decided again, and no
others (P7). What a link no longer depends on may be remembered until the link is
gone: it is then decided once too often.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.credentials import (
    AuthorisationCertificate,
    CertificateRevoked,
    CertificateStale,
    Principal,
    SignedCertificate,
    TestKind,
)
from maia.credentials.brokers import makes_broker
from maia.events import Instant
from maia.policy.facts import about_the_world
from maia.predicates import ALWAYS
from maia.sessions.statements import StatementIntake
from maia.types import validity_type_id
from maia.validity import Changed, named_testers, one_time_tests
from maia.wire.effects import LinkId


class DependencyIndex:
    """Links by the ids of the certificates that something on them depends on."""

    __slots__ = ("_by_certificate", "_by_link")

    def __init__(self) -> None:
        """Begin with no dependency."""
        # Most certificates speak for one link alone; a set for each would be most of what this holds.
        self._by_certificate: dict[bytes, LinkId | set[LinkId]] = {}
        self._by_link: dict[LinkId, tuple[bytes, ...] | list[bytes]] = {}
        """A list once there are several decisions; each certificate is in it once."""

    def __len__(self) -> int:
        """Return how many certificates something depends on."""
        return len(self._by_certificate)

    def __contains__(self, certificate: bytes) -> bool:
        """Return whether anything depends on a certificate."""
        return certificate in self._by_certificate

    def note(self, link: LinkId, watched: Collection[bytes]) -> None:
        """Remember that something on a link depends on these certificates."""
        new: list[bytes] = []
        for certificate in watched:
            before = self._by_certificate.get(certificate)
            if before is None:
                self._by_certificate[certificate] = link
            elif before == link or (isinstance(before, set) and link in before):
                continue
            elif isinstance(before, set):
                before.add(link)
            else:
                self._by_certificate[certificate] = {before, link}
            new.append(certificate)
        known = self._by_link.get(link)
        if isinstance(known, list):
            known += new
        elif new:
            self._by_link[link] = [*known, *new] if known else tuple(new)

    def forget(self, link: LinkId) -> None:
        """Forget a link that is gone."""
        for certificate in self._by_link.pop(link, ()):
            before = self._by_certificate[certificate]
            if isinstance(before, set):
                before.discard(link)
                if before:
                    continue
            del self._by_certificate[certificate]

    def keep_only(self, link: LinkId, certificates: Collection[bytes]) -> None:
        """Forget that anything on a link depends on other certificates than these."""
        known = set(self._by_link.get(link, ())).intersection(certificates)
        self.forget(link)
        self.note(link, known)

    def links_on(self, certificates: Iterable[bytes]) -> tuple[LinkId, ...]:
        """Return the links on which something may depend on one of these certificates, in one order."""
        found: set[LinkId] = set()
        for certificate in certificates:
            links = self._by_certificate.get(certificate)
            if isinstance(links, set):
                found |= links
            elif links is not None:
                found.add(links)
        return tuple(sorted(found))

    def certificates_on(self, link: LinkId) -> Collection[bytes]:
        """Return the certificates that something on a link depends on, or once did."""
        return self._by_link.get(link, ())


_NOT_AWAITED: Final = frozenset({TestKind.ONE_TIME, TestKind.FOLLOWED_CRL})
_STREAMS_MAX: Final = 8192
_CERTIFICATES_MAX: Final = 65_536
"""Certificates that are remembered although nothing depends on them any more, or not yet."""


@dataclass(slots=True)
class StatementIssuer:
    """An issuer whose statements certificates here demand."""

    by: Principal
    type_id: bytes
    certificates: set[bytes] = field(default_factory=set)
    """Those that demand it."""
    kinds: set[TestKind] = field(default_factory=set)
    met_at: Instant | None = None
    """When a certificate that demands it was last decided upon; None until then."""
    is_wanted: bool = False
    """Whether this broker has said that it wants the stream."""
    asked_at: Instant | None = None
    """When others were last asked what it said last."""
    sought_at: Instant | None = None
    """Since when a statement for now, or for the next moments, is looked for; None while it is at hand."""


class ValidityTracker:
    """The validity statements of one broker, and the issuers that it needs them of."""

    __slots__ = (
        "_limit",
        "_look_at",
        "certificates",
        "conditional",
        "dependencies",
        "evicted",
        "forgotten",
        "generation",
        "intake",
        "issuers",
        "monitor",
        "new",
        "streams",
    )

    def __init__(self, kept: Mapping[str, bytes], *, issuers_max: int) -> None:
        """Go on with what was kept; a record that cannot be read is an error, and no start."""
        self.intake = StatementIntake(kept)
        self.monitor = self.intake.monitor
        self.dependencies = DependencyIndex()
        self.issuers: dict[Principal, StatementIssuer] = {}
        self.generation = 0
        """Grows when there is another stream that statements come on."""
        self.streams: dict[bytes, Principal] = {}
        """Streams that are listened to when they come by: by type, whose they are."""
        self.certificates: dict[bytes, SignedCertificate] = {}
        """Certificates that demand a statement, by id."""
        self.conditional: dict[bytes, Principal] = {}
        """Certificates that hold under a condition, and who has set it."""
        self.new: dict[Principal, StatementIssuer] = {}
        """Those whose streams have to be asked for, or asked for again."""
        self.evicted: list[StatementIssuer] = []
        """Those who had to make room, and whose streams are still to be given up."""
        self.forgotten: set[bytes] = set()
        """Certificates of which nobody is told any more what is stated of them, until this is acted upon."""
        self._limit = issuers_max
        self._look_at = _CERTIFICATES_MAX
        for by in self.monitor:
            self.listen(by)

    # ------------------------------------------------------------ what is known of certificates

    def met(self, pool: Iterable[SignedCertificate], watched: Collection[bytes]) -> None:
        """Take note of certificates that something is decided from: of their issuers, and of their tests."""
        for signed in pool:
            if signed.id in watched:
                self.listen(signed.certificate.issuer)
                if signed.certificate.validity.tests:
                    self._met(signed)
                certificate = signed.certificate
                if isinstance(certificate, AuthorisationCertificate) and (
                    about_the_world(certificate.authority) != ALWAYS
                ):
                    self.conditional[signed.id] = signed.certificate.issuer

    def _met(self, signed: SignedCertificate) -> None:
        if signed.id not in self.certificates and len(self.certificates) >= self._look_at:
            self._forget_unused(frozenset())
            # What is in use stays, and links have their shares; to go through all of it each time costs most.
            self._look_at = max(_CERTIFICATES_MAX, 2 * len(self.certificates))
        self.certificates[signed.id] = signed
        for test in signed.certificate.validity.tests:
            issuer = self.issuers.get(test.by)
            if issuer is None:
                if not self._make_room(test.by):
                    continue  # it has stated nothing, so what demands it is refused
                issuer = self.issuers[test.by] = StatementIssuer(test.by, self.listen(test.by))
            issuer.certificates.add(signed.id)
            issuer.kinds.add(test.kind)
            self.new[test.by] = issuer

    def _make_room(self, by: Principal) -> bool:
        """Make room for an issuer, and say whether there is: its statements must end in time."""
        if by in self.monitor or len(self.issuers) < self._limit:
            return True
        # Any peer can name testers that never state anything: one of those makes room.
        silent = next((one for one in self.issuers.values() if one.by not in self.monitor), None)
        if silent is None:
            return False
        del self.issuers[silent.by]
        self.new.pop(silent.by, None)
        self.evicted.append(silent)
        return True

    def listen(self, by: Principal) -> bytes:
        """Accept an issuer's statements when they pass; return the type of its stream."""
        type_id = validity_type_id(by)
        if type_id not in self.streams:
            if len(self.streams) >= _STREAMS_MAX:
                # Of those that no right here depends on, the ones met first go.
                needed = {*self.issuers, *self.monitor}
                spare = [one for one, issuer in self.streams.items() if issuer not in needed]
                for gone in spare[: _STREAMS_MAX // 2] or [next(iter(self.streams))]:
                    del self.streams[gone]
            self.streams[type_id] = by
            self.generation += 1
        return type_id

    def wants(self, by: Principal) -> bool:
        """Return whether there is a reason to take in the statements of an issuer."""
        return validity_type_id(by) in self.streams

    # ------------------------------------------------------------ what was said

    def touched_by(self, changed: Changed) -> frozenset[bytes]:
        """Return the certificates that a statement, or its end, concerns."""
        issuer = self.issuers.get(changed.by)
        demanding = () if issuer is None or not changed.tests else issuer.certificates
        touched = {one for one in demanding if changed.concerns(self.certificates[one])}
        if changed.about:  # certificates whose conditions ask for facts that this issuer states
            touched |= {one for one, by in self.conditional.items() if by == changed.by}
        return changed.certificates | touched

    def is_missed(self, issuer: StatementIssuer, at: Instant) -> bool:
        """Return whether a statement of an issuer is demanded that is not at hand for this moment."""
        return not issuer.kinds - _NOT_AWAITED <= self.monitor.at_hand(issuer.by, at)

    def awaits(self, pool: Iterable[SignedCertificate], now: Instant) -> bool:
        """Return whether a certificate is refused only because a statement has not arrived yet."""
        check = self.monitor.check
        return any(
            isinstance(check(signed, now, once=one_time_tests(signed)), CertificateStale) for signed in pool
        )

    def is_broker_no_more(self, broker: Principal, held: Iterable[SignedCertificate], now: Instant) -> bool:
        """Return whether all that made a key a broker was revoked."""
        made = [one for one in held if one.certificate.subject == broker and makes_broker(one)]
        return bool(made) and all(
            isinstance(self.monitor.check(one, now), CertificateRevoked) for one in made
        )

    def is_refused(self, signed: SignedCertificate, now: Instant) -> bool:
        """Return whether something speaks against a certificate, where others have decided upon it.

        Of an issuer that has stated nothing here, nothing is missed: the edge has its statements. One-time
        answers are for the edge that asked, which has had them (docs/decisions/one-time-tests.md).
        """
        problem = self.monitor.check(signed, now, once=one_time_tests(signed))
        if not isinstance(problem, CertificateStale):
            return problem is not None
        return any(by in self.monitor for by in named_testers((signed,)))

    # ------------------------------------------------------------ what goes and what stays

    def given_up(self, now: Instant, *, after_us: int) -> list[StatementIssuer]:
        """Forget certificates that nothing depends on, and return the issuers that are needed no more."""
        recent = [one for one in self.issuers.values() if one.met_at is None or now < one.met_at + after_us]
        self._forget_unused(frozenset(id_ for one in recent for id_ in one.certificates))
        gone = [one for one in self.issuers.values() if not one.certificates]
        for issuer in gone:
            del self.issuers[issuer.by]
            self.new.pop(issuer.by, None)
        return gone

    def _forget_unused(self, spared: frozenset[bytes]) -> None:
        """Forget certificates that nothing depends on, but for some."""
        resting, before = self.dependencies, self.certificates
        self.certificates = {one: signed for one, signed in before.items() if one in resting or one in spared}
        self.forgotten |= before.keys() - self.certificates.keys()
        self.conditional = {one: by for one, by in self.conditional.items() if one in resting}
        for issuer in self.issuers.values():
            issuer.certificates &= self.certificates.keys()

    def status(self, now: Instant) -> dict[str, object]:
        """Return what an operator asks for: which issuers are needed, and until when they are fresh."""
        return {
            "certificates": len(self.dependencies),
            "streams": len(self.streams),
            "issuers": {
                str(one.by): {"certificates": len(one.certificates), **self.intake.status(one.by, now)}
                for one in self.issuers.values()
            },
        }
