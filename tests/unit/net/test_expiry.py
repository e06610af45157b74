"""Certificates of a server that end soon are in its log and its metrics, once a day each."""

from __future__ import annotations

import io
import json

from maia.credentials import (
    Action,
    NetworkPattern,
    SignedCertificate,
    SigningKey,
    Validity,
    parse_name_pattern,
)
from maia.events import SECOND, Instant
from maia.net.expiry import ExpiryWatch
from maia.net.telemetry import Telemetry
from maia.testing import grant

OWNER, BROKER = (SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2))
DAY = 86_400 * SECOND
NOW = Instant.parse("2026-11-16T12:00:00Z")


def right(days: float, network: str = "city", *, since: float | None = None) -> SignedCertificate:
    begin = None if since is None else Instant(NOW - int(since * DAY))
    return grant(
        OWNER,
        BROKER,
        NetworkPattern(OWNER.principal, parse_name_pattern(network)),
        Action.CONNECT,
        validity=Validity(begin, Instant(NOW + int(days * DAY))),
    )


def watched(*held: SignedCertificate, hours: tuple[int, ...] = (0,)) -> tuple[list[dict[str, object]], str]:
    """Return the log and the metrics of a server that looks at its certificates at these hours."""
    stream, moment = io.StringIO(), NOW
    telemetry = Telemetry(stream, log_format="json")

    async def certificates() -> list[SignedCertificate]:
        return []

    watch = ExpiryWatch(certificates, telemetry, lambda: moment, days=14)
    for hour in hours:
        moment = Instant(NOW + hour * 3600 * SECOND)
        watch.look(held)
    return [json.loads(line) for line in stream.getvalue().splitlines()], telemetry.metrics().decode()


def test_what_ends_soon_is_named_until_a_newer_certificate_grants_the_same() -> None:
    soon, other, ended, long_ago = right(3), right(5, "county"), right(-1, "town"), right(-30, "village")
    lines, _ = watched(right(90, "sea"), soon, other, ended, long_ago)
    assert [one["certificate"] for one in lines] == [one.id.hex()[:24] for one in (ended, soon, other)]
    lines, metrics = watched(soon, right(60), long_ago)
    assert lines == []
    assert f"maia_certificate_expiry_seconds {60 * 86400.0}" in metrics.replace("5.184e+06", "5184000.0")
    assert "maia_certificate_expiry_seconds +Inf" in watched(long_ago)[1]


def test_a_certificate_that_a_domain_renews_every_day_counts_in_its_last_quarter() -> None:
    lines, metrics = watched(right(0.5, since=0.5), right(90, "sea", since=1))
    assert lines == []
    assert "maia_certificates_expiring 0.0" in metrics
    assert f"maia_certificate_expiry_seconds {90 * 86400.0}" in metrics.replace("7.776e+06", "7776000.0")
    lines, metrics = watched(right(0.2, since=0.8), right(90, "sea", since=1))
    assert len(lines) == 1
    assert f"maia_certificate_expiry_seconds {0.2 * 86400}" in metrics


def test_a_server_warns_once_a_day_and_its_metrics_say_how_many_seconds_are_left() -> None:
    lines, metrics = watched(right(3), right(90, "sea"), hours=(0, 1, 23, 25))
    assert [(one["event"], one["level"], one["actions"]) for one in lines] == [
        ("expiring", "warning", ["connect"])
    ] * 2
    assert "maia_certificates_expiring 1.0" in metrics
    assert f"maia_certificate_expiry_seconds {(72 - 25) * 3600.0}" in metrics


def test_metrics_count_what_was_given_to_others_and_ends_soon() -> None:
    telemetry = Telemetry(io.StringIO(), log_format="json")

    async def none() -> list[SignedCertificate]:
        return []

    watch = ExpiryWatch(none, telemetry, lambda: NOW, days=14)
    watch.count([right(1), right(13, "county"), right(1, "sea"), right(90, "sea"), right(-1, "town")])
    metrics = telemetry.metrics().decode()
    assert "maia_rights_expiring 2.0" in metrics
    assert "maia_rights_expiring_next 1.0" in metrics
