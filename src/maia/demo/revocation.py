"""What came of the revocation in the middle of the demonstration?

The delay is measured in the demonstration's own process, from the call to the
court's notice at the Met's HTTP interface to the moment at which the
detective is notified that her subscription has ended. The rest is counted from
what was delivered after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from maia.credentials import Principal
from maia.demo.performance import OFFICES
from maia.errors import Unavailable
from maia.policy import GrantRevoked

__all__ = ["NotRevoked", "Revocation", "subscriptions_at"]

_BILLING, _STATISTICS, _DETECTIVE = OFFICES


class NotRevoked(Unavailable):
    """A court order was revoked, and the network did not act on it in time."""

    code = "UNAVAILABLE-NOT-REVOKED"


@dataclass(frozen=True, slots=True)
class Revocation:
    """A revocation, how long it took, and what was delivered to whom afterwards."""

    delay_ms: float
    """From the call until the detective was notified."""
    answered_ms: float
    """From the call until it returned: the network knew by then."""
    code: str
    sentence: str
    received_before: Mapping[str, int]
    published_before: int
    delivered_after: int = 0
    """Sightings that reached the detective after she was notified."""
    suspect_seen_after: int = 0
    """How often the cameras saw the suspect's car after that."""
    billing_after: int = 0
    statistics_after: int = 0
    still_subscribed: int = 0
    """Subscriptions of the detective at her broker."""

    def and_then(
        self, *, received: Mapping[str, int], suspect_seen: int, still_subscribed: int
    ) -> Revocation:
        """Return it with what came after, counted from what every office has received by now."""
        after = {office: received[office] - self.received_before[office] for office in OFFICES}
        return replace(
            self,
            delivered_after=after[_DETECTIVE],
            suspect_seen_after=suspect_seen,
            billing_after=after[_BILLING],
            statistics_after=after[_STATISTICS],
            still_subscribed=still_subscribed,
        )

    def record(self) -> dict[str, object]:
        """Return it for programs."""
        names = (
            "delay_ms", "answered_ms", "code", "delivered_after", "suspect_seen_after",
            "billing_after", "statistics_after", "still_subscribed",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def broken_claims(self) -> Iterator[str]:
        """Say what a right that was taken away still gave, or whom it should not have touched."""
        if self.code != GrantRevoked.code:
            yield f"the detective's subscription ended for another reason: {self.code}"
        if self.delivered_after:
            yield f"{self.delivered_after} sightings reached the detective after her right was revoked"
        if self.still_subscribed:
            yield f"the detective still has {self.still_subscribed} subscriptions at her broker"
        if not self.suspect_seen_after:
            yield "the suspect's car was not seen again, so the silence proves nothing"
        for office, after in (("billing", self.billing_after), ("statistics", self.statistics_after)):
            if not after:
                yield f"the {office} office receives nothing since the court order was revoked"


def subscriptions_at(broker: Path, principal: Principal) -> int:
    """Ask a broker how many subscriptions of somebody stand there."""
    from maia.net.status_endpoint import fetch_status, read_door

    links = fetch_status(read_door(broker / "data")).get("links")
    return sum(
        int(link["subscriptions"])
        for link in (links if isinstance(links, list) else [])
        if link.get("peer") == str(principal)
    )
