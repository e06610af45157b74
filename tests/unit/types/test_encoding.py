"""One form for each signed definition, and nothing else is read."""

import pytest

from maia.canonical import write_canonical
from maia.credentials.keys import BadKey, QuorumId
from maia.events import BadAttribute
from maia.types import (
    BadDefinition,
    BadDefinitionEncoding,
    definition_from_bytes,
    definition_to_bytes,
    definition_to_text,
    sign_definition,
)
from maia.types.encoding import definition_from_body, definition_to_expression
from support.types import (
    MANAGER,
    NUMBERPLATE,
    PITO,
    install,
    manage,
    numberplate,
)

FIRST = sign_definition(numberplate(), PITO)
CREDENTIALS = (manage(PITO, MANAGER), install(PITO, MANAGER))
LATER = sign_definition(numberplate(number=8516, credentials=CREDENTIALS), MANAGER)


def test_an_owner_may_be_a_quorum():
    owner = QuorumId(b"\x07" * 32)
    signed = sign_definition(numberplate(owner=owner), MANAGER)
    assert definition_from_bytes(definition_to_bytes(signed)).definition.name.owner == owner


def test_the_text_form_shows_names_and_kinds():
    text = definition_to_text(FIRST)
    assert NUMBERPLATE in text
    assert "event-type" in text
    assert "timestamp" in text


FIELDS = definition_to_expression(LATER.definition)
HEAD, FORMAT, NAME, PREVIOUS, ATTRIBUTES, EMBEDDED = FIELDS


@pytest.mark.parametrize(
    "fields",
    [
        (HEAD, FORMAT, NAME, ATTRIBUTES, PREVIOUS, EMBEDDED),
        (HEAD, FORMAT, NAME, PREVIOUS, PREVIOUS, ATTRIBUTES, EMBEDDED),
        (HEAD, FORMAT, NAME, PREVIOUS, ATTRIBUTES, ATTRIBUTES, EMBEDDED),
        (HEAD, FORMAT, NAME, PREVIOUS, ATTRIBUTES, EMBEDDED, EMBEDDED),
        (HEAD, FORMAT, NAME, PREVIOUS, EMBEDDED, ATTRIBUTES),
        (HEAD, FORMAT, NAME, PREVIOUS, ATTRIBUTES, EMBEDDED, (b"extends", b"Base")),
        (HEAD, FORMAT, NAME, PREVIOUS, ATTRIBUTES, (b"credentials",)),
        (HEAD, FORMAT, NAME, PREVIOUS, EMBEDDED),
        (HEAD, FORMAT, NAME, PREVIOUS),
        (HEAD, NAME, FORMAT, PREVIOUS, ATTRIBUTES),
        (HEAD, NAME, PREVIOUS, ATTRIBUTES),
        (HEAD, (b"version", b"2"), NAME, PREVIOUS, ATTRIBUTES),
        (HEAD, (b"version", b"01"), NAME, PREVIOUS, ATTRIBUTES),
        (HEAD, FORMAT, (*NAME, b"x"), PREVIOUS, ATTRIBUTES),
        (HEAD, FORMAT, NAME[:3], PREVIOUS, ATTRIBUTES),
        (HEAD, FORMAT, (b"name", b"PITO", *NAME[2:]), PREVIOUS, ATTRIBUTES),
        (HEAD, FORMAT, (b"name", (b"quorum", b"short"), *NAME[2:]), PREVIOUS, ATTRIBUTES),
        (HEAD, FORMAT, NAME, (b"previous", b"0", b"0"), ATTRIBUTES),
        (HEAD, FORMAT, NAME, (b"previous", (b"0",)), ATTRIBUTES),
        (HEAD, FORMAT, NAME, PREVIOUS, (b"attributes", b"numberplate")),
        (HEAD, FORMAT, NAME, PREVIOUS, (b"attributes", (b"attribute", b"a", b"1"))),
        (HEAD, FORMAT, NAME, PREVIOUS, (b"attributes", (b"attribute", b"a", b"1", b"String"))),
        (HEAD, FORMAT, NAME, PREVIOUS, (b"attributes", (b"attribute", b"a", b"1", b"string", b"x"))),
        (HEAD, FORMAT, NAME, PREVIOUS, (b"attributes", (b"attribute", b"\xff", b"1", b"string"))),
        (HEAD, FORMAT, NAME, PREVIOUS, ATTRIBUTES, (b"credentials", b"cert")),
        (b"event-typ", FORMAT, NAME, PREVIOUS, ATTRIBUTES),
        (),
        b"event-type",
    ],
)
def test_a_field_that_is_missing_repeated_unknown_or_moved_is_refused(fields):
    with pytest.raises(BadDefinitionEncoding):
        definition_from_body(write_canonical(fields))


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        (
            (HEAD, FORMAT, (b"name", (b"ed25519", b"\x01" + b"\x00" * 31), *NAME[2:]), PREVIOUS, ATTRIBUTES),
            BadKey,
        ),
        ((HEAD, FORMAT, NAME, PREVIOUS, (b"attributes", (b"attribute", b"a b", b"1", b"int"))), BadAttribute),
        ((HEAD, FORMAT, NAME, PREVIOUS, (b"attributes",)), BadDefinition),
        ((HEAD, FORMAT, NAME, ATTRIBUTES), BadDefinition),
    ],
)
def test_what_no_definition_may_say_is_refused_by_the_reader(fields, refusal):
    with pytest.raises(refusal):
        definition_from_body(write_canonical(fields))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data + b"\n",
        lambda data: b" " + data,
        lambda data: data[:-1],
        lambda data: data.replace(b"6:signed", b"06:signed", 1),
        lambda data: data.replace(b"(6:signed", b"(6:signed0:", 1),
        lambda data: data.replace(b"7:ed2551964:", b"7:rsa-sha64:", 1),
        lambda data: data[: data.rindex(b"64:")] + b"63:" + data[data.rindex(b"64:") + 4 :],
        lambda _: b"",
        lambda _: b"(" * 100_000,
        lambda _: b"()",
    ],
)
def test_the_envelope_is_read_strictly(spoil):
    data = definition_to_bytes(FIRST)
    assert spoil(data) != data
    with pytest.raises(BadDefinitionEncoding):
        definition_from_bytes(spoil(data))
