"""A refusal has one id for all that happens again, and a principal displaces only refusals of its own."""

from __future__ import annotations

from maia.broker.links.links import REFUSALS_MAX, Refusals
from maia.broker.refusals import refusal_id
from maia.events import Instant
from maia.wire.effects import Note

NOW = Instant.parse("2026-11-16T12:00:00Z")


def refused(principal: str, kind: int = 0) -> Note:
    return Note("refused", {"code": "POLICY-NO-CHAIN", "principal": principal, "type": f"{kind}"})


def test_a_repeated_refusal_is_one_record_under_the_id_that_its_client_is_sent() -> None:
    kept = Refusals()
    for moment in (NOW, Instant(NOW + 1)):
        kept.record(refused("office"), moment)
    (one,) = kept.records()
    assert one["id"] == refusal_id(refused("office").fields)
    assert (one["first"], one["last"], one["times"]) == (str(NOW), str(Instant(NOW + 1)), 2)
    kept.record(Note("closing", {"code": "POLICY-NO-CHAIN", "peer": "lab", "role": "unknown"}), NOW)
    kept.record(Note("closing", {"code": "PROTOCOL-SILENT", "peer": "lab", "role": "client"}), NOW)
    assert [(found["principal"], found["asked"]) for found in kept.records()] == [
        ("lab", "Connect"),
        ("office", None),
    ]


def test_one_principal_does_not_displace_the_refusals_of_others() -> None:
    kept = Refusals()
    kept.record(refused("office"), NOW)
    for kind in range(1000):
        kept.record(refused("noisy", kind), NOW)
    assert {one["principal"] for one in kept.records()} == {"office", "noisy"}
    for other in range(1000):
        kept.record(refused(f"stranger-{other}"), NOW)
    assert len(kept.records()) == REFUSALS_MAX
