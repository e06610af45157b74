"""Which certificates have ended, or end soon, and who can give another one?

Clients, servers, the console and `maia renew` all ask here, so that what people are
warned of is what is renewed. A certificate counts until a newer one grants the same. One
that holds for days only was meant so, or is renewed by a domain all the time: it ends soon
in its last quarter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from maia.credentials import (
    Action,
    AuthorisationCertificate,
    NetworkPattern,
    SignedCertificate,
    TopicPattern,
    TypePattern,
)
from maia.events import SECOND, Instant
from maia.policy.decision import PolicyRefusal, Reason

WARNED_DAYS: Final = 14
"""How long before the end of a right people are warned."""
AGAIN_DAYS: Final = 2
"""And when once more."""
DAY: Final = 86_400 * SECOND


@dataclass(frozen=True, slots=True)
class Ending:
    """A certificate, which grants what no newer one does, and when it ends."""

    at: Instant
    signed: SignedCertificate

    @property
    def life(self) -> float:
        """Return for how long it holds in all."""
        begin = self.signed.certificate.validity.not_before
        return math.inf if begin is None else self.at - begin

    def is_soon(self, now: Instant, days: int) -> bool:
        """Return whether it ends within so many days, or has ended."""
        return self.at - now <= min(days * DAY, self.life // 4)

    def is_over(self, now: Instant) -> bool:
        """Return whether it has ended."""
        return now > self.at

    @property
    def right(self) -> str:
        """Return what it grants, in few words: `subscribe:LabResult`."""
        said = self.signed.certificate
        if not isinstance(said, AuthorisationCertificate):
            return f"the name {said.name}"
        match said.authority.resources:
            case TypePattern(name=name):
                about = f":{name}"
            case TopicPattern(path=path):
                about = f":{path}"
            case NetworkPattern(name=name):
                return on_network(said.authority.actions, str(name))
            case _:
                about = " everything"
        return f"{' '.join(sorted(action.value for action in said.authority.actions))}{about}"

    def fields(self) -> dict[str, object]:
        """Return what a log line says of it."""
        said, identifier = self.signed.certificate, self.signed.id.hex()[:24]
        found = {"certificate": identifier, "until": self.at, "issuer": said.issuer, "right": self.right}
        if isinstance(said, AuthorisationCertificate):
            return {**found, "actions": sorted(action.value for action in said.authority.actions)}
        return {**found, "name": said.name}


_ON_NETWORK: Final[Mapping[Action, str]] = {
    Action.CONNECT: "connect to network {}",
    Action.BROKER: "be a broker of network {}",
    Action.INSTALL: "install types on network {}",
    Action.SERVE: "serve all types on network {}",
}


def on_network(actions: Iterable[Action], name: str) -> str:
    """Return what some actions mean for a network, as people say it."""
    said = (_ON_NETWORK.get(one, f"{one.value} network {{}}") for one in actions)
    return ", ".join(one.format(name) for one in sorted(said))


class EndsSoon(PolicyRefusal):
    """Something that is granted ends within two weeks, and nothing newer grants the same."""

    code = "POLICY-ENDS-SOON"

    def __init__(self, ending: Ending) -> None:
        """Say what ends, when, and who can give it anew."""
        said = ending.signed.certificate
        sentence = (
            f"`{ending.right}`, granted by {said.issuer}, ends at {ending.at}: ask {said.issuer} to renew it"
        )
        super().__init__(self.code, (Reason("validity", sentence, ending.signed.id, "validity.not_after"),))


def ended(signed: SignedCertificate) -> Reason:
    """Say which certificate of a chain has ended, and who can give another one; its subject may know both."""
    issuer, end = signed.certificate.issuer, signed.certificate.validity.not_after
    sentence = f"what {issuer} granted ended at {end}: ask {issuer} for a new certificate"
    return Reason("validity", sentence, signed.id, "validity.not_after")


def last_ends(certificates: Iterable[SignedCertificate]) -> list[Ending]:
    """Return when each right ends, with the last certificate that grants it; the first to end first."""
    last: dict[object, tuple[Instant | None, SignedCertificate]] = {}
    for signed in certificates:
        one = signed.certificate
        granted = (one.authority, one.may_delegate) if isinstance(one, AuthorisationCertificate) else one.name
        key, end = (one.issuer, one.subject, granted), one.validity.not_after
        known = last.get(key)
        if known is None or (known[0] is not None and (end is None or end > known[0])):
            last[key] = (end, signed)
    found = [Ending(end, signed) for end, signed in last.values() if end is not None]
    return sorted(found, key=lambda one: (one.at, one.signed.id))


def ending(
    certificates: Iterable[SignedCertificate], now: Instant, *, days: int = WARNED_DAYS
) -> list[Ending]:
    """Return what ends within so many days and has not ended yet, the first to end first."""
    return [one for one in last_ends(certificates) if not one.is_over(now) and one.is_soon(now, days)]


class Warned:
    """Of which ends somebody has been warned: of each twice."""

    __slots__ = ("_days",)

    def __init__(self) -> None:
        self._days: dict[bytes, int] = {}

    def news(self, certificates: Sequence[SignedCertificate], now: Instant) -> list[Ending]:
        """Return what is to be warned of now, and remember it."""
        soon = {one.signed.id: one for one in ending(certificates, now)}
        days = {
            id_: AGAIN_DAYS if one.at - now <= AGAIN_DAYS * DAY else WARNED_DAYS for id_, one in soon.items()
        }
        told, self._days = self._days, days
        return [one for id_, one in soon.items() if told.get(id_) != days[id_]]
