"""Certificates of a server that end soon are in its log and its metrics, once a day each."""

from __future__ import annotations

import io
import json

from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Authority,
    NetworkPattern,
    SignedCertificate,
    SigningKey,
    Validity,
    issue,
    parse_name_pattern,
)
from maia.events import SECOND, Instant
from maia.net.expiry import ExpiryWatch, ending
from maia.net.telemetry import Telemetry

OWNER, BROKER = (SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2))
DAY = 86_400 * SECOND
NOW = Instant.parse("2026-11-16T12:00:00Z")


def right(days: int, network: str = "city") -> SignedCertificate:
    resources = NetworkPattern(OWNER.principal, parse_name_pattern(network))
    authority = Authority(resources, frozenset({Action.CONNECT}))
    ends = Validity(None, Instant(NOW + days * DAY))
    return issue(AuthorisationCertificate(OWNER.principal, BROKER.principal, False, authority, ends), OWNER)


def test_what_ends_soon_is_named_until_a_newer_certificate_grants_the_same() -> None:
    soon, other, ended, long_ago = right(3), right(5, "county"), right(-1, "town"), right(-30, "village")
    found = ending([right(90, "sea"), soon, other, ended, long_ago], NOW, days=14)
    assert [one for _, one in found] == [ended, soon, other]
    assert [one for _, one in ending([soon, right(60), other], NOW, days=14)] == [other]
    assert ending([soon], NOW, days=2) == []


def test_a_server_warns_once_a_day_and_its_metrics_say_how_many_seconds_are_left() -> None:
    stream, moment = io.StringIO(), NOW
    telemetry = Telemetry(stream, log_format="json")

    async def certificates() -> list[SignedCertificate]:
        return []

    watch = ExpiryWatch(certificates, telemetry, lambda: moment, days=14)
    held = [right(3), right(90, "sea")]
    for hours in (0, 1, 23, 25):
        moment = Instant(NOW + hours * 3600 * SECOND)
        watch.look(held)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["event"], one["level"], one["actions"]) for one in lines] == [
        ("expiring", "warning", ["connect"])
    ] * 2
    metrics = telemetry.metrics().decode()
    assert "maia_certificates_expiring 1.0" in metrics
    assert f"maia_certificate_expiry_seconds {(72 - 25) * 3600.0}" in metrics
