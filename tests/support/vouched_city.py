"""A city whose offices have rights that must be vouched for, and the force that does, or takes them back."""

from __future__ import annotations

from dataclasses import dataclass

from maia.client import ClientSettings, Delivered, Notice, known_version
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    OnlineTest,
    SignedCertificate,
    SignedStatement,
    TestKind,
    issue,
)
from maia.events import Instant
from maia.policy import NO_FACTS, Permit, Request, View, decide, gather_evidence
from maia.testing import Statements
from maia.testing.simulation import BEGINNING
from maia.types import validity_definition
from maia.types.verified import statement_to_event
from maia.validity import ASSUMED_GOOD
from support.simulated_city import SECOND, City, Office, Violation

PERIOD_S = 12
LEAD_S = 4
UNDER_WAY_S = 2.0
"""How long a delivery may be on its way from a broker to its client."""


@dataclass(slots=True)
class Ending:
    """Up to when an office may be served, by the clock of its broker."""

    at: Instant | None = None


class VouchedCity(City):
    """Offices are served while the Met vouches for them, and not a moment longer."""

    def __init__(self, seed: int, *, brokers: int = 3, issuer_at: int = 0, **settings: object) -> None:
        self.rights: dict[str, SignedCertificate] = {}
        super().__init__(seed, brokers=brokers, require_install=False, **settings)
        self.says = Statements(self.cast.keys["Met"])
        self.skews = dict.fromkeys(range(brokers), 0.0)
        self.endings: dict[str, Ending] = {}
        self.homes: dict[str, int] = {}
        self.covered_until = Instant(BEGINNING - 1)
        self.stated: list[SignedStatement] = []
        self.is_silent = False
        settings_of_issuer = ClientSettings(
            network=self.cast.network,
            addresses=(self.addresses[issuer_at],),
            credentials=(self._force_connects("Met"),),
            dial_again_most_s=2.0,
        )
        self.issuer = self.network.add_client("Met", self.cast.keys["Met"], settings_of_issuer)
        stream = known_version([validity_definition(self.cast.keys["Met"])], at=BEGINNING)
        self.stream = self.issuer.advertise(stream)
        self._beat()

    # ------------------------------------------------------------ statements

    def _beat(self) -> None:
        """State, some time before the last list ends, what holds for the next period."""
        if self.covered_until < self.network.now:
            self.covered_until = Instant(self.network.now - 1)
        if not self.is_silent and self.covered_until < self.network.now + LEAD_S * SECOND:
            since = Instant(self.covered_until + 1)
            self.state(self.says.list_for(since, PERIOD_S))
            self.covered_until = Instant(since + PERIOD_S * SECOND - 1)
        self.network.after(1, self._beat)

    def state(self, *statements: SignedStatement) -> bool:
        """Publish statements in one frame, if the Met is connected."""
        self.stated += statements
        return self.issuer.publish(self.stream, [statement_to_event(one) for one in statements])

    def revoke(self, office: Office) -> None:
        """Take an office's right back, and say so at once; whoever misses it learns with the next list."""
        self.endings[office.name].at = self.covered_until
        self.state(self.says.revoke(self.rights[office.name]))

    # ------------------------------------------------------------ rights

    def _certificate(self, issuer, subject, pattern, action, **named) -> SignedCertificate:
        signed = super()._certificate(issuer, subject, pattern, action, **named)
        if action is not Action.SUBSCRIBE or named.get("may_delegate"):
            return signed
        plain = signed.certificate
        test = OnlineTest(TestKind.TIMED_CRL, self.cast.principal(issuer))
        certificate = AuthorisationCertificate(
            issuer=plain.issuer,
            subject=plain.subject,
            may_delegate=False,
            authority=plain.authority,
            validity=plain.validity.with_tests(test),
        )
        return issue(certificate, self.cast.keys[issuer])

    def _grant(self, force, name, action, **named) -> SignedCertificate:
        signed = super()._grant(force, name, action, **named)
        if action is Action.SUBSCRIBE:
            self.rights[name] = signed
        return signed

    def _view(self, name, action, pool, wanted, known=None) -> View:
        version = (known or self.known).event_type
        request = Request(self.key(name).principal, action, version.name, version, wanted)
        evidence = gather_evidence(request, tuple(pool), at=BEGINNING, standing=ASSUMED_GOOD)
        decision = decide(request, evidence, NO_FACTS, BEGINNING)
        assert isinstance(decision, Permit), decision
        return decision.view

    def office(self, name, *args, via=(0,), **named) -> Office:
        self.endings[name] = Ending()
        self.homes[name] = via[0]
        return super().office(name, *args, via=via, **named)

    def set_clock(self, broker: int, skew_s: float) -> None:
        self.skews[broker] = skew_s
        self.network.set_clock(self.brokers[broker], skew_s=skew_s)

    # ------------------------------------------------------------ what must never happen

    def _check(self, office: Office, notice: Notice) -> None:
        super()._check(office, notice)
        ends = self.endings[office.name].at
        if not isinstance(notice, Delivered) or ends is None:
            return
        by_its_broker = self.network.now + self.skews[self.homes[office.name]] * SECOND
        if by_its_broker > ends + UNDER_WAY_S * SECOND:
            raise Violation(f"{office.name} was served after its right had ended: {self.network.story()}")
