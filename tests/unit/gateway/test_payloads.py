"""A gateway's payload of an event of which its reader may see nothing beside the topic."""

from __future__ import annotations

import pytest

from maia.credentials import SigningKey, TypeName
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.gateway.topic_table import PayloadForm, TopicRow, row_of
from maia.types import TypeDefinition, sign_definition, verify_definition

OWNER = SigningKey.from_seed(b"o" * 32)
ATTRIBUTES = tuple(Attribute(name, AttributeUid(name), Kind.STRING) for name in ("place", "plate"))
TYPE = verify_definition(
    sign_definition(TypeDefinition(TypeName(OWNER.principal, "Seen", "0"), None, ATTRIBUTES), OWNER),
    at=Instant.parse("2026-11-16T09:00:00Z"),
)


def row(form: PayloadForm, mqtt: str = "seen/{place}") -> TopicRow:
    plain = "plate" if form is PayloadForm.PLAIN else None
    return row_of(mqtt=mqtt, event_type=TYPE, form=form, attribute=plain, is_durable=False, is_retained=True)


@pytest.mark.parametrize(
    ("form", "payload", "content_type"),
    [
        (PayloadForm.JSON, b"{}", "application/json"),
        (PayloadForm.CBOR, b"\xa0", "application/cbor"),
        (PayloadForm.PLAIN, b"", None),
    ],
)
def test_where_nothing_is_shown_a_payload_is_an_empty_map(form, payload, content_type):
    columns = {"place": ("Soho", "Soho"), "plate": (None, "BD51 SMR")}
    hidden, shown = row(form).messages_of(columns, 2)
    assert hidden == ("seen/Soho", payload, content_type)
    assert b"BD51 SMR" in shown[1]
    assert row(form).clears({"place": "Soho", "plate": None})
    assert not row(form).clears({"place": "Soho", "plate": "BD51 SMR"})


@pytest.mark.parametrize("form", [PayloadForm.JSON, PayloadForm.CBOR])
def test_a_topic_that_holds_every_attribute_leaves_an_empty_map(form):
    topic, payload, _ = row(form, "seen/{place}/{plate}").message_of({"place": "Soho", "plate": "X"})
    assert (topic, payload) == ("seen/Soho/X", b"{}" if form is PayloadForm.JSON else b"\xa0")
