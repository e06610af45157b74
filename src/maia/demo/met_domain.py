"""Who gives Detective Smith her right, and who takes it away again? Section 6.1.1 of the dissertation.

The Metropolitan Police runs a domain's server with a policy: a detective with
a court order for a plate, on the case of that order, may follow the plate.
The court tells the server of its order, the detective logs in and gets a
certificate that counts only while the Met confirms it. The demonstration
asks, over the server's HTTP interface, as any client would.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.credentials import (
    Action,
    NetworkPattern,
    SignedCertificate,
    TopicPattern,
    TypePattern,
    certificate_from_bytes,
    certificate_to_bytes,
    certificate_to_text,
    exact_name,
)
from maia.credentials.statements import SignedStatement, statement_from_bytes, statement_to_bytes
from maia.demo.numberplate import SUSPECT, NumberplateStory, SealedCast, is_about, key_of
from maia.events import SECOND, Instant

if TYPE_CHECKING:
    from maia.api.client import DomainClient
    from maia.api.responses import WalletAnswer
    from maia.credentials.appointments import SignedAppointment


MET_DOMAIN: Final = "Met domain"
DETECTIVE: Final = "Detective Smith"

COURT: Final = "court"
"""Who makes court orders at the Met's server, and takes them back."""
CASE: Final = "case 7"
_ORDER: Final = "court_order"
_HOUR: Final = 3_600_000_000
_POLICY: Final = """\
policy "Metropolitan Police"

type Numberplate = uk.gov.pito.Numberplate

appointment court_order(case: string, plate: string) by here
fact detective(who: principal)
fact case_assignment(who: principal, case: string)

role np_tracker(plate: string)

rule np_tracker(plate)
    while court_order(case, plate)
    while detective(holder)
    while case_assignment(holder, case)
    until the court_order ends

grant np_tracker(plate)
    may subscribe to Numberplate(numberplate, timestamp, location)
    where numberplate == $plate
    checked by timed-crl

end
"""


# ------------------------------------------------------------ before anything runs


def add_met_domain(
    story: NumberplateStory, cast: SealedCast, seed: bytes
) -> tuple[NumberplateStory, SealedCast]:
    """Let the Met's policy decide about the detective: no certificate of the story does it any more."""
    court = key_of(COURT, seed)
    keys = {**cast.keys, MET_DOMAIN: story.keys["Met"]}
    # It puts a stream of its own on the network: the one on which it says what is revoked.
    may_install = story.grant("PITO", story.principal("Met"), story.network_pattern, Action.INSTALL)
    shown = (story.held_by("Met", NetworkPattern), may_install)
    credentials = {**cast.credentials, MET_DOMAIN: shown}
    story = replace(without_detectives_right(story), keys={**story.keys, COURT: court})
    return story, replace(cast, keys=keys, credentials=credentials)


def without_detectives_right(story: NumberplateStory) -> NumberplateStory:
    """Return the story without the certificate that gave the detective her right for good."""
    detective = story.principal(DETECTIVE)
    left = (
        one
        for one in story.certificates
        if one.certificate.subject != detective or not is_about(one, TypePattern)
    )
    return replace(story, certificates=tuple(left))


def with_certificates(story: NumberplateStory, more: Iterable[SignedCertificate]) -> NumberplateStory:
    """Return the story with these certificates in it, each once."""
    known = {one.id: one for one in (*story.certificates, *more)}
    return replace(story, certificates=tuple(known.values()))


def domain_files(home: Path, story: NumberplateStory, definition: str, *, broker: str) -> dict[str, object]:
    """Write what the Met's server has beside its key, and return the settings that name it."""
    home.mkdir(parents=True)
    (home / "met.policy").write_text(_POLICY, encoding="utf-8")
    (home / "numberplate.type").write_text(definition, encoding="utf-8")
    held = certificate_to_text(story.held_by("Met", TypePattern))
    (home / "held.cert").write_text(held, encoding="utf-8")
    return {
        "api.listen": "127.0.0.1:0",
        "broker.addresses": [broker],
        "policy.file": "met.policy",
        "policy.types": "numberplate.type",
        "policy.held": "held.cert",
    }


# ------------------------------------------------------------ while the server runs


@dataclass(frozen=True, slots=True)
class DetectivesRight:
    """What the detective got when she logged in."""

    role: str
    order: str
    """The id of the court order."""
    certificates: tuple[SignedCertificate, ...] = field(repr=False)
    statements: tuple[SignedStatement, ...] = field(repr=False)
    appointment: SignedAppointment = field(repr=False)
    """The court order itself, by which she can log in again."""
    wallet: WalletAnswer = field(repr=False)
    """All that the Met's server answered."""

    def as_hex(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the certificates and the statements, for another process."""
        return (
            tuple(certificate_to_bytes(one).hex() for one in self.certificates),
            tuple(statement_to_bytes(one).hex() for one in self.statements),
        )


@dataclass(frozen=True, slots=True)
class MetDesk:
    """The Met's server, seen by those who come to it. Calls block: ask from a thread."""

    story: NumberplateStory
    address: str

    def log_in(self, now: Instant) -> DetectivesRight:
        """Put the detective on the case, have the court make its order, and let the detective log in."""
        from maia.api.requests import Appointing, FactBody, LoginBody, Period, TypedArgument
        from maia.api.responses import AppointmentAnswer, News, WalletAnswer
        from maia.credentials.appointments import appointment_from_bytes

        smith = str(self.story.principal(DETECTIVE))
        who = TypedArgument(principal=smith)
        with self._calling("Met") as met:
            for fact in (FactBody("detective", [who]), FactBody("case_assignment", [who, CASE])):
                met.call("POST", "/v1/facts", fact, answer=News)
        second = now - now % SECOND
        hour = Period(str(Instant(second)), str(Instant(second + _HOUR)))
        with self._calling(COURT, self.courts_right()) as court:
            order = court.call(
                "POST",
                "/v1/appointments",
                Appointing(smith, _ORDER, hour, [CASE, SUSPECT]),
                answer=AppointmentAnswer,
            )
        with self._calling(DETECTIVE) as detective:
            wallet = detective.call("POST", "/v1/login", LoginBody([order.certificate]), answer=WalletAnswer)
        (member,) = (one.membership for one in wallet.memberships)
        return DetectivesRight(
            role=f"{member.role}({', '.join(map(str, member.arguments))})",
            order=order.id,
            certificates=tuple(map(certificate_from_bytes, wallet.chains)),
            statements=tuple(map(statement_from_bytes, wallet.statements)),
            appointment=appointment_from_bytes(order.certificate),
            wallet=wallet,
        )

    def take_back(self, order: str, reason: str) -> SignedStatement | None:
        """Have the court take its order back; return what the Met has said to the network, if it has."""
        from maia.api.requests import Reason
        from maia.api.responses import RevokedAnswer

        with self._calling(COURT, self.courts_right()) as court:
            path = f"/v1/appointments/{order}/revocation"
            fallen = court.call("POST", path, Reason(reason), answer=RevokedAnswer)
            is_told = fallen.statement is not None and court.last.is_published
        return statement_from_bytes(fallen.statement) if is_told and fallen.statement else None

    def _calling(self, who: str, *shown: SignedCertificate) -> DomainClient:
        from maia.api.client import DomainClient

        met = self.story.principal("Met")
        return DomainClient(self.address, domain=met, key=self.story.keys[who], credentials=shown)

    def courts_right(self) -> SignedCertificate:
        """Let the court make appointments at the Met, and nothing else."""
        topics = TopicPattern(self.story.principal("Met"), exact_name("/admin/appointments"))
        return self.story.grant("Met", self.story.principal(COURT), topics, Action.PUBLISH)
