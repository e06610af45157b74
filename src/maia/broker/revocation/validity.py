"""Whose word does this broker need on the certificates that it was shown, and has it got it?

A certificate may demand that somebody vouches for it (dissertation 6.2). The
desk knows who these are for all rights that stand here, what they have said
(`ValidityState`), up to when that holds, and who here rests on which certificate
(`DependencyIndex`). Statements come by as frames of each issuer's validity stream,
or are shown by whoever has use for them. The desk says what a statement, or
its end, has changed; what follows from that is in `revocation/apply.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from maia.broker.revocation.dependencies import DependencyIndex
from maia.credentials import (
    AuthorisationCertificate,
    CertificateStale,
    Principal,
    SignedCertificate,
    SignedStatement,
    TestKind,
    ValidityState,
)
from maia.credentials.validity.one_time_answers import one_time_tests
from maia.credentials.validity.series import SeriesKind
from maia.credentials.validity.statements import OneTimeAnswer
from maia.errors import BadInput, MaiaError
from maia.events import Instant
from maia.predicates import ALWAYS
from maia.types import validity_type_id
from maia.wire.effects import Effect, Keep

__all__ = ["KEPT_STATEMENTS", "BadKeptStatements", "ValidityTracker", "StatementIssuer"]

KEPT_STATEMENTS: Final = "statements/"
"""How the names under which statements are kept begin."""

_STREAMS_MAX: Final = 8192
_CERTIFICATES_MAX: Final = 65_536
"""Certificates that are remembered although nothing rests on them any more, or not yet."""
_RECORDS: Final = msgspec.msgpack.Decoder(list[bytes])
_TIMED: Final = (TestKind.TIMED_CRL, TestKind.REVALIDATION)


class BadKeptStatements(BadInput):
    """What was kept of statements cannot be read: to go on without it would be to forget revocations."""

    code = "INPUT-KEPT-STATEMENTS"


@dataclass(slots=True)
class StatementIssuer:
    """Somebody whose word certificates here demand."""

    by: Principal
    type_id: bytes
    certificates: set[bytes] = field(default_factory=set)
    """Those that demand it."""
    kinds: set[TestKind] = field(default_factory=set)
    met_at: Instant | None = None
    """When a certificate that demands it was last decided upon; None until it is looked at."""
    is_wanted: bool = False
    """Whether this broker has said that it wants the stream."""
    held: frozenset[TestKind] = frozenset()
    """Which kinds of its word were at hand when it was last looked at."""
    look_at: Instant | None = None
    """The last moment before one of them ends, or one that was stated in advance begins."""
    promised: Instant | None = None
    """The moment at which it will be looked at, whatever else was asked for before."""
    asked_at: Instant | None = None
    """When others were last asked what it said last."""

    @property
    def is_missed(self) -> bool:
        """Say whether some word of it is demanded that is not at hand."""
        return not self.kinds - {TestKind.ONE_TIME} <= self.held


class ValidityTracker:
    """What one broker has heard on validity, and on whose behalf it listens."""

    __slots__ = (
        "_limit",
        "_look_at",
        "certificates",
        "conditional",
        "evicted",
        "new",
        "reliance",
        "standing",
        "streams",
        "vouchers",
    )

    def __init__(self, kept: Mapping[str, bytes], *, vouchers_max: int) -> None:
        """Go on with what was kept; a record that cannot be read is an error, and no start."""
        self.standing = _reloaded(kept)
        self.reliance = DependencyIndex()
        self.vouchers: dict[Principal, StatementIssuer] = {}
        self.streams: dict[bytes, Principal] = {}
        """Streams that are listened to when they come by: by type, whose they are."""
        self.certificates: dict[bytes, SignedCertificate] = {}
        """Certificates that demand somebody's word, by id."""
        self.conditional: dict[bytes, Principal] = {}
        """Certificates that hold under a condition, and who has set it."""
        self.new: dict[Principal, StatementIssuer] = {}
        """Those whose streams have to be asked for, or asked for again."""
        self.evicted: list[StatementIssuer] = []
        """Those who had to make room, and whose streams are still to be given up."""
        self._limit = vouchers_max
        self._look_at = _CERTIFICATES_MAX
        for by in self.standing:
            self.listen(by)

    # ------------------------------------------------------------ what is known of certificates

    def doubted(self, pool: Iterable[SignedCertificate], now: Instant) -> list[bytes]:
        """Return the certificates of a pool that something speaks against now."""
        problem_with = self.standing.problem_with
        return [signed.id for signed in pool if problem_with(signed, now) is not None]

    def met(self, pool: Iterable[SignedCertificate], watched: frozenset[bytes]) -> None:
        """Take note of certificates that something is decided from: of their issuers, and of their tests."""
        for signed in pool:
            if signed.id in watched:
                self.listen(signed.certificate.issuer)
                if signed.certificate.validity.tests:
                    self._met(signed)
                if _is_conditional(signed):
                    self.conditional[signed.id] = signed.certificate.issuer

    def _met(self, signed: SignedCertificate) -> None:
        if signed.id not in self.certificates and len(self.certificates) >= self._look_at:
            self._forget_unused(frozenset())
            # What is in use stays, and links have their shares; to look at all of it each time costs most.
            self._look_at = max(_CERTIFICATES_MAX, 2 * len(self.certificates))
        self.certificates[signed.id] = signed
        for test in signed.certificate.validity.tests:
            voucher = self.vouchers.get(test.by)
            if voucher is None:
                if not self._has_room(test.by):
                    continue  # nothing was heard of it, so what demands it is refused
                voucher = self.vouchers[test.by] = StatementIssuer(test.by, self.listen(test.by))
            voucher.certificates.add(signed.id)
            voucher.kinds.add(test.kind)
            self.new[test.by] = voucher

    def _has_room(self, by: Principal) -> bool:
        """Say whether somebody may be looked after; who was heard must be, for its word to end in time."""
        was_heard = any(self.standing.sequence_of(by, kind) for kind in SeriesKind)
        return was_heard or len(self.vouchers) < self._limit or self._evict_one()

    def _evict_one(self) -> bool:
        """Make room by giving up somebody who was never heard: anybody can name people who never speak."""
        silent = next((one for one in self.vouchers.values() if not one.held), None)
        if silent is None:
            return False
        del self.vouchers[silent.by]
        self.new.pop(silent.by, None)
        self.evicted.append(silent)
        return True

    def listen(self, by: Principal) -> bytes:
        """Hear the statements of somebody when they come by; return their stream's type."""
        type_id = validity_type_id(by)
        if type_id not in self.streams:
            if len(self.streams) >= _STREAMS_MAX:
                self._make_room()
            self.streams[type_id] = by
        return type_id

    def _make_room(self) -> None:
        """Stop listening to whom nobody here has a reason to listen to, the ones met first."""
        needed = {*self.vouchers, *self.standing}
        spare = [type_id for type_id, by in self.streams.items() if by not in needed]
        for type_id in spare[: _STREAMS_MAX // 2] or [next(iter(self.streams))]:
            del self.streams[type_id]

    # ------------------------------------------------------------ what was said

    def hear(self, signed: SignedStatement, now: Instant) -> tuple[frozenset[bytes], bool, MaiaError | None]:
        """Take a statement in; return the certificates it concerns, whether it is news, and what is odd."""
        heard = self.standing.hear(signed, now)
        if not heard.is_news:
            return frozenset(), False, None
        voucher = self.vouchers.get(heard.by)
        # The same moments as before, or later ones: nobody is asked about for that.
        back = frozenset[bytes]() if voucher is None else self._looked_at(voucher, now)
        touched = heard.revoked | heard.restored | back
        return touched | (self._conditional_on(heard.by) if heard.about else frozenset()), True, heard.problem

    def _conditional_on(self, by: Principal) -> frozenset[bytes]:
        """Return the certificates whose conditions ask for what somebody says."""
        return frozenset([one for one, issuer in self.conditional.items() if issuer == by])

    def look_at(self, voucher: StatementIssuer, now: Instant) -> frozenset[bytes]:
        """Return the certificates for which somebody's word has come, or has ended, since the last look."""
        touched = self._looked_at(voucher, now)
        for certificate in touched:
            # Asked of one that demands it, what is over by now is over for good, if the clock goes back too.
            self.standing.problem_with(self.certificates[certificate], now)
        return touched

    def _looked_at(self, voucher: StatementIssuer, now: Instant) -> frozenset[bytes]:
        before, voucher.held = voucher.held, self._held(voucher, now)
        changed = before ^ voucher.held
        if not changed:
            return frozenset()
        return frozenset(
            [
                certificate
                for certificate in voucher.certificates
                if any(
                    test.by == voucher.by and test.kind in changed
                    for test in self.certificates[certificate].certificate.validity.tests
                )
            ]
        )

    def _held(self, voucher: StatementIssuer, now: Instant) -> frozenset[TestKind]:
        """Return which kinds of somebody's word hold now, and note when the first of them ends."""
        held: set[TestKind] = set()
        ends: list[Instant] = []
        if self.standing.sequence_of(voucher.by):
            held.add(TestKind.CRL)
        for kind in _TIMED:
            until = self.standing.fresh_until(voucher.by, now, kind) if kind in voucher.kinds else None
            if until is not None:
                held.add(kind)
                ends.append(until)
        voucher.look_at = min([*ends, *self._before_starts(voucher.by, now)], default=None)
        return frozenset(held)

    def unchanged_until(self, certificates: Sequence[SignedCertificate], now: Instant) -> Instant | None:
        """Return the last moment before a period begins that was stated ahead for one of these; or None."""
        concerned = {signed.certificate.issuer for signed in certificates}
        concerned |= self.standing.testers(certificates)
        return min((end for by in concerned for end in self._before_starts(by, now)), default=None)

    def _before_starts(self, by: Principal, now: Instant) -> list[Instant]:
        """Return the last moments before periods that somebody has stated in advance."""
        said = [signed.statement for signed in self.standing.statements(by, now)]
        periods = [
            one.period for one in said if not isinstance(one, OneTimeAnswer) and one.period is not None
        ]
        starts = [period.not_before for period in periods if period.not_before is not None]
        return [Instant(start - 1) for start in starts if start > now]

    def refresh(self, voucher: StatementIssuer, now: Instant) -> None:
        """Look at what somebody's word is worth now; whoever was just decided upon knows it already."""
        voucher.met_at, voucher.held = now, self._held(voucher, now)

    def awaits(self, pool: Iterable[SignedCertificate], now: Instant) -> bool:
        """Say whether a certificate of a pool waits for somebody's word that may come."""
        problem_with = self.standing.problem_with
        return any(
            isinstance(problem_with(signed, now, once=one_time_tests(signed)), CertificateStale)
            for signed in pool
        )

    def is_refused(self, signed: SignedCertificate, now: Instant) -> bool:
        """Say whether something speaks against a certificate, where others have decided upon it.

        Of whom nothing was ever heard here, nothing is missed here: the edge has heard it. One-time
        answers are for the edge that asked, which has had them (docs/decisions/one-time-tests.md).
        """
        problem = self.standing.problem_with(signed, now, once=one_time_tests(signed))
        if not isinstance(problem, CertificateStale):
            return problem is not None
        return any(
            self.standing.sequence_of(test.by, kind)
            for test in signed.certificate.validity.tests
            for kind in SeriesKind
        )

    # ------------------------------------------------------------ what goes and what stays

    def given_up(self, now: Instant, *, after_us: int) -> list[StatementIssuer]:
        """Forget certificates that nothing rests on, and return those whose word nobody needs any more."""
        recent = [one for one in self.vouchers.values() if one.met_at is None or now < one.met_at + after_us]
        self._forget_unused(frozenset(id_ for one in recent for id_ in one.certificates))
        gone = [one for one in self.vouchers.values() if not one.certificates]
        for voucher in gone:
            del self.vouchers[voucher.by]
            self.new.pop(voucher.by, None)
        return gone

    def _forget_unused(self, spared: frozenset[bytes]) -> None:
        """Forget certificates that nothing rests on, but for some."""
        resting = self.reliance
        self.certificates = {
            one: signed for one, signed in self.certificates.items() if one in resting or one in spared
        }
        self.conditional = {one: by for one, by in self.conditional.items() if one in resting}
        for voucher in self.vouchers.values():
            voucher.certificates &= self.certificates.keys()

    def kept(self, by: Principal) -> Effect:
        """Return what keeps all that somebody has said."""
        return Keep(KEPT_STATEMENTS + by.key.hex(), msgspec.msgpack.encode(list(self.standing.exported(by))))

    def status(self, now: Instant) -> dict[str, object]:
        """Return what an operator asks for: whose word is needed, and up to when it is at hand."""
        return {
            "certificates": len(self.reliance),
            "streams": len(self.streams),
            "vouchers": {
                str(one.by): {
                    "certificates": len(one.certificates),
                    "sequence": self.standing.sequence_of(one.by),
                    "fresh_until": str(self.standing.fresh_until(one.by, now) or "") or None,
                }
                for one in self.vouchers.values()
            },
        }


def _is_conditional(signed: SignedCertificate) -> bool:
    certificate = signed.certificate
    return isinstance(certificate, AuthorisationCertificate) and certificate.authority.condition != ALWAYS


def _reloaded(kept: Mapping[str, bytes]) -> ValidityState:
    records: list[bytes] = []
    for name, data in kept.items():
        if name.startswith(KEPT_STATEMENTS):
            try:
                records += _RECORDS.decode(data)
            except msgspec.MsgspecError as problem:
                raise BadKeptStatements(f"`{name}` cannot be read") from problem
    return ValidityState.reloaded(records)
