"""Logs and metrics: lines with named fields, no secrets, no label that a peer can multiply."""

from __future__ import annotations

import io
import json
import re
import sys

from maia.broker.streams.disclosures import BOUNDS_US, DeliveryTally
from maia.events import SECOND
from maia.net.telemetry import BOUNDS_S, LABEL_SETS_MAX, Telemetry


def lines_of(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_an_event_with_named_fields() -> None:
    stream = io.StringIO()
    Telemetry(stream).note("refused", {"code": "POLICY-EXPIRED", "principal": "ed25519:ab", "link": 4})
    (line,) = lines_of(stream)
    assert (line["event"], line["code"], line["link"], line["level"]) == (
        "refused",
        "POLICY-EXPIRED",
        4,
        "warning",
    )
    assert str(line["at"]).endswith("Z")


def test_a_field_that_could_be_a_secret_is_left_out_and_bytes_are_only_counted() -> None:
    stream = io.StringIO()
    Telemetry(stream).note(
        "odd", {"seed": b"s" * 32, "status_token": "abc", "Passphrase": "x", "data": b"0123456789"}
    )
    (line,) = lines_of(stream)
    assert set(line) == {"event", "level", "at", "data"}
    assert line["data"] == "<10 bytes>"


def test_what_a_peer_wrote_stays_on_one_line_and_short() -> None:
    stream = io.StringIO()
    Telemetry(stream).note("odd", {"message": "a\nb" + "c" * 10_000, "event": "forged"})
    (line,) = lines_of(stream)
    assert line["event"] == "odd"
    assert len(str(line["message"])) < 400


def test_a_level_leaves_lines_out_and_text_is_for_people() -> None:
    stream = io.StringIO()
    telemetry = Telemetry(stream, log_format="text", level="warning")
    telemetry.note("started", {})
    telemetry.note("refused", {"why": "disk full"})
    assert "started" not in stream.getvalue()
    assert "disk full" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_what_is_refused_where_nothing_is_wrong_is_no_warning() -> None:
    stream = io.StringIO()
    for code in (
        "STATEMENT-OLD",
        "UNAVAILABLE-LINK-NOT-NEEDED",
        "SEALING-NOT-BY-A-MEMBER",
        "STATEMENT-FORMAT",
    ):
        Telemetry(stream).note("refused", {"code": code})
    assert [line["level"] for line in lines_of(stream)] == ["info", "info", "info", "warning"]


def test_who_is_refused_because_a_server_has_just_started_is_no_warning_for_a_minute() -> None:
    stream, now = io.StringIO(), [0.0]
    telemetry = Telemetry(stream, clock=lambda: now[0])
    for second in (1.0, 59.0, 61.0):
        now[0] = second
        telemetry.note("refused", {"code": "UNAVAILABLE-STATEMENT-AWAITED"})
        telemetry.note("refused", {"code": "POLICY-REVOKED"})
    levels = [line["level"] for line in lines_of(stream)]
    assert levels == ["info", "warning", "info", "warning", "warning", "warning"]


def test_what_happens_every_ten_seconds_where_all_is_well_is_no_line_that_an_operator_reads() -> None:
    stream = io.StringIO()
    for level in ("info", "debug"):
        Telemetry(stream, level=level).note("log-rolled", {"segments": 1})
    assert [line["level"] for line in lines_of(stream)] == ["debug"]


def test_a_closed_log_does_not_stop_the_broker() -> None:
    stream = io.StringIO()
    telemetry = Telemetry(stream, log_format="json")
    stream.close()
    telemetry.note("started", {})


def test_counters_and_gauges_appear_among_the_metrics() -> None:
    telemetry = Telemetry(io.StringIO())
    telemetry.count("maia_refused_total", 2, {"code": "POLICY-EXPIRED"})
    telemetry.count("maia_rows_published_total", 5, {})
    telemetry.count("maia_rows_published_total", -1, {})
    telemetry.measure("maia_clients", 7)
    text = telemetry.metrics().decode()
    assert 'maia_refused_total{code="POLICY-EXPIRED"} 2.0' in text
    assert "maia_rows_published_total 5.0" in text
    assert "maia_clients 7.0" in text


def test_a_peer_that_invents_labels_fills_one_more_row_and_no_memory() -> None:
    telemetry = Telemetry(io.StringIO())
    for number in range(LABEL_SETS_MAX + 100):
        telemetry.count("maia_refused_total", 1, {"code": f"C{number}"})
    rows = [
        line for line in telemetry.metrics().decode().splitlines() if line.startswith("maia_refused_total{")
    ]
    assert len(rows) == LABEL_SETS_MAX + 1
    assert 'maia_refused_total{code="other"} 100.0' in rows


def test_one_name_has_one_set_of_labels() -> None:
    telemetry = Telemetry(io.StringIO())
    telemetry.count("maia_x_total", 1, {})
    telemetry.count("maia_x_total", 1, {"code": "A"})
    telemetry.count("not a name", 1, {})
    assert "maia_x_total 1.0" in telemetry.metrics().decode()


def test_what_was_delivered_is_a_counter_and_a_histogram_that_begin_with_the_process() -> None:
    tally, telemetry = DeliveryTally(), Telemetry(io.StringIO())
    assert [round(one * SECOND) for one in BOUNDS_S] == list(BOUNDS_US)
    telemetry.show(lambda: tally)
    tally.add(3, published_at=1_000_000, now=1_002_000)
    tally.add(1, published_at=1_000_000, now=1_000_000 + 90 * SECOND)
    tally.add(2, published_at=1_000_000, now=999_000)  # a publisher whose clock is ahead
    shown = dict(line.rsplit(" ", 1) for line in telemetry.metrics().decode().splitlines())
    assert float(shown["maia_rows_delivered_total"]) == float(shown["maia_delivery_seconds_count"]) == 6
    times = {
        one: float(shown[f'maia_delivery_seconds_bucket{{le="{one}"}}'])
        for one in ("0.001", "0.0025", "+Inf")
    }
    assert times == {"0.001": 2, "0.0025": 5, "+Inf": 6}
    assert float(shown["maia_delivery_seconds_sum"]) == 90.006


def test_the_process_itself_is_measured() -> None:
    shown = Telemetry(io.StringIO()).metrics().decode()
    assert re.search(r"^python_info\{", shown, re.M)
    assert re.search(r"^python_gc_collections_total\{", shown, re.M)
    if sys.platform == "linux":
        assert re.search(r"^process_resident_memory_bytes [1-9]", shown, re.M)
