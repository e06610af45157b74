"""Which of my certificates does this request need?

A client shows a broker the chains that speak for what it asks for, found by
discovery, and nothing else that it holds (C12). Renewals ask the same again
and again, so an answer is remembered until a certificate begins or ends.
Certificates may demand statements that they still count; the newest ones that
the client was given go along (RFC 2693: the requester brings the evidence).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from maia.bounded_map import BoundedMap
from maia.credentials import (
    Action,
    Budget,
    NetworkName,
    Principal,
    ResourceName,
    SignedCertificate,
    SignedStatement,
    TypeName,
    Validity,
    VerificationCache,
    VerifiedConstitution,
    certificate_from_bytes,
    certificate_to_bytes,
    find_chains,
    statement_to_bytes,
    steady_period,
)
from maia.credentials.authority import AttributeSet
from maia.credentials.brokers import as_broker, made_by
from maia.errors import MaiaError, Refusal
from maia.events import AttributeUid, Instant
from maia.policy import NO_FACTS, Denial, Evidence, PolicyRefusal, Reason, Request, decide, gather_evidence
from maia.policy.decide import left_out
from maia.policy.view import Window, attributes_told, has_as_many, window_of
from maia.sessions.admission import right_to_connect
from maia.validity import ASSUMED_GOOD, Monitor, Tester, speakers

_ANSWERS_MAX: Final = 1024
_STATEMENTS_MAX: Final = 1024
_SHOWN_MAX: Final = 64
_WORK_OF_A_BROKER: Final = 40_000
"""Steps that the search for the right of a broker to a type may take."""
_NONE: Final[AttributeSet] = frozenset()
_Asked: TypeAlias = tuple[Principal, Action, ResourceName]
"""What the search for chains depends on; a filter is not part of it."""
_Shown: TypeAlias = tuple[list[bytes], Reason | None]
_Answer = TypeVar("_Answer")


class Wallet:
    """A client's certificates, and those it has found good."""

    __slots__ = ("_answers", "_cache", "_certificates", "_constitutions", "_given", "_monitor", "_views")

    def __init__(
        self, certificates: Iterable[SignedCertificate], constitutions: tuple[VerifiedConstitution, ...] = ()
    ) -> None:
        """Hold these certificates, in whatever order they come."""
        self._certificates = tuple(certificates)
        self._constitutions = constitutions
        self._cache = VerificationCache()
        self._answers: BoundedMap[_Asked, tuple[Validity, _Shown]] = BoundedMap(_ANSWERS_MAX)
        self._views: BoundedMap[_Asked, tuple[Validity, tuple[Window, ...]]] = BoundedMap(_ANSWERS_MAX)
        self._monitor = Monitor()
        self._given: list[SignedStatement] = []

    def add(self, certificates: Iterable[SignedCertificate]) -> None:
        """Hold more certificates."""
        held = {signed.id: signed for signed in (*self._certificates, *certificates)}
        if len(held) > len(self._certificates):
            self._certificates = tuple(held.values())
            self._answers.clear()
            self._views.clear()

    @property
    def certificates(self) -> tuple[SignedCertificate, ...]:
        """Return all that is held."""
        return self._certificates

    def find(self, certificate: bytes) -> SignedCertificate | None:
        """Return the certificate of this id, if it is held."""
        return next((signed for signed in self._certificates if signed.id == certificate), None)

    def add_statements(self, statements: Iterable[SignedStatement]) -> None:
        """Hold statements on the validity of certificates."""
        self._given = [*self._given, *statements][-_STATEMENTS_MAX:]

    def statements_for(self, now: Instant, shown: Iterable[bytes] | None = None) -> list[bytes]:
        """Return statements by those who test, or issued, these certificates; None for all that are held."""
        wanted = None if shown is None else set(shown)
        held = self._certificates
        asked = [one for one in held if wanted is None or certificate_to_bytes(one) in wanted]
        monitor = self._validity(now)
        issuers = sorted({by for one in asked for by in speakers(one)}, key=lambda by: by.key)
        found = [signed for by in issuers for signed in monitor.statements(by, now)]
        return [statement_to_bytes(signed) for signed in found[-_SHOWN_MAX:]]

    def _validity(self, now: Instant) -> Monitor:
        """Return what follows at this moment from the statements that were given."""
        given, self._given = self._given, []
        for signed in given:
            self._monitor.receive(signed, now)
        self._monitor.advance(now)
        return self._monitor

    def needed_for(self, request: Request, now: Instant) -> list[bytes]:
        """Return what to show with a request; raise the kernel's refusal if nothing here speaks for it."""
        return list(self._known(self._answers, request, now, self._found)[0])

    def shown_by(self, request: Request, now: Instant) -> tuple[Window, ...]:
        """Return what the rights here show of a type; nothing where facts decide, which the broker knows."""

        def find(request: Request, now: Instant) -> tuple[Window, ...]:
            evidence = self._evidence(request, self._certificates, now, ASSUMED_GOOD)
            decision = decide(request, replace(evidence, bounds=()), NO_FACTS, now)
            return () if isinstance(decision, Denial) else decision.view.windows

        return self._known(self._views, request, now, find)

    def _known(
        self,
        known: BoundedMap[_Asked, tuple[Validity, _Answer]],
        request: Request,
        now: Instant,
        find: Callable[[Request, Instant], _Answer],
    ) -> _Answer:
        """Return what was found for such a request, until a certificate begins or ends; else find it."""
        asked = (request.principal, request.action, request.resource)
        found = known.use(asked)
        if found is None or not found[0].contains(now):
            answer = find(request, now)
            steady = steady_period((signed.certificate.validity for signed in self._certificates), now)
            found = (steady, answer)
            known.put(asked, found)
        return found[1]

    def limit_of(self, request: Request) -> PolicyRefusal | None:
        """Say that there was no room to show all that speaks for a request, if that was so the last time."""
        known = self._answers.get((request.principal, request.action, request.resource))
        return (
            None
            if known is None or known[1][1] is None
            else PolicyRefusal("POLICY-GRANTS-LEFT-OUT", (known[1][1],))
        )

    def steady_since(self, now: Instant) -> Instant | None:
        """Return when a certificate last began or ended, so that other ones may be shown; None for never."""
        return steady_period((signed.certificate.validity for signed in self._certificates), now).not_before

    def _found(self, request: Request, now: Instant) -> _Shown:
        # Whether a certificate passes its tests is for the broker to decide: it has the statements, and knows
        # of bounds. So whatever might serve in place of another one is shown beside it, if there is room.
        every = [signed.id for signed in self._certificates]
        evidence = self._evidence(request, self._certificates, now, ASSUMED_GOOD, every)
        if evidence.left_out:
            evidence = self._evidence(request, self._certificates, now, ASSUMED_GOOD)
        if not evidence.chains:
            # Without a chain the answer is known, and the reasons are known better here than anywhere.
            self._check(request, evidence, now)
        shown = {signed.id: signed for chain in evidence.chains for signed in chain.certificates}
        return [certificate_to_bytes(signed) for signed in shown.values()], left_out(evidence)

    def check_broker(
        self,
        request: Request,
        shown: Iterable[SignedCertificate],
        statements: Iterable[SignedStatement],
        now: Instant,
        *,
        brokers_of: Container[Principal] | None = None,
    ) -> None:
        """Raise unless what a peer has shown makes it a broker, and permits `request`, which is to connect.

        Only the word of an organisation in `brokers_of` makes it one, or of any (C16, C18). Statements count
        that are by the testers or issuers of what was shown.
        """
        broker = request.principal
        every = as_broker(shown, broker)
        pool = every if brokers_of is None else as_broker(every, broker, brokers_of.__contains__)
        if not made_by(broker, pool):
            others = ", ".join(f"`{one}`" for one in sorted(map(str, made_by(broker, every))))
            raise Refusal(
                "REFUSED-BROKER-NOT-TRUSTED",
                f"it is a broker of {others}, and of no organisation that `brokers_of` names"
                if others
                else "no organisation has made its key a broker",
            )
        monitor = self._validity(now)
        concerned = {by for signed in pool for by in speakers(signed)}
        for said in statements:
            if said.statement.by in concerned:
                monitor.receive(said, now)
        right_to_connect(
            request, pool, now, tester=monitor, cache=self._cache, constitutions=self._constitutions
        )

    def is_entitled(
        self,
        peer: Principal,
        action: Action,
        resource: NetworkName | TypeName,
        shown: Iterable[bytes],
        now: Instant,
        told: AttributeSet = _NONE,
        defined: Iterable[AttributeUid] = (),
    ) -> bool:
        """Return whether certificates that a broker has shown let it do something itself.

        Of a type, the broker's right has to be about all attributes that the client is `told` of. Whether
        certificates pass their tests is for others to decide: a client need not have the statements.
        """
        with suppress(MaiaError):
            found = find_chains(
                [certificate_from_bytes(data) for data in shown],
                root=resource.owner,
                subject=peer,
                action=action,
                resource=resource,
                at=now,
                cache=self._cache,
                constitutions=self._constitutions,
                budget=Budget.of(_WORK_OF_A_BROKER),
            )
            held = attributes_told(window_of(chain.authority, action) for chain in found)
            return has_as_many(held, told, defined)
        return False

    def _evidence(
        self,
        request: Request,
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        standing: Tester,
        doubtful: Iterable[bytes] = (),
    ) -> Evidence:
        return gather_evidence(
            request,
            pool,
            at=now,
            cache=self._cache,
            constitutions=self._constitutions,
            standing=standing,
            doubtful=doubtful,
        )

    def _check(self, request: Request, evidence: Evidence, now: Instant) -> None:
        decision = decide(request, replace(evidence, bounds=()), NO_FACTS, now)
        if isinstance(decision, Denial):
            raise decision.as_refusal()
