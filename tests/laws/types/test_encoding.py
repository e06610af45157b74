"""What holds of the bytes of every definition, and of every change to them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.errors import MaiaError
from maia.types import (
    definition_from_bytes,
    definition_from_text,
    definition_to_bytes,
    definition_to_text,
    sign_definition,
)
from support.types import MANAGER, PITO, attribute_tuples, install, manage, numberplate

pytestmark = pytest.mark.laws

CERTIFICATES = (manage(PITO, MANAGER), install(PITO, MANAGER))


@st.composite
def definitions(draw):
    number = draw(st.integers(0, 3))
    credentials = draw(st.lists(st.sampled_from(CERTIFICATES), unique_by=lambda one: one.id).map(tuple))
    return numberplate(
        *draw(attribute_tuples()), number=number, previous=draw(st.integers(4, 6)), credentials=credentials
    )


@given(definitions())
def test_reading_undoes_writing(definition):
    signed = sign_definition(definition, MANAGER)
    assert definition_from_bytes(definition_to_bytes(signed)) == signed
    assert definition_from_text(definition_to_text(signed)) == signed


@given(definitions(), definitions())
def test_two_definitions_never_share_their_signed_bytes(one, other):
    signed = sign_definition(one, PITO), sign_definition(other, PITO)
    assert (signed[0].body == signed[1].body) == (one == other)
    assert (signed[0].id == signed[1].id) == (one == other)


SAMPLE = definition_to_bytes(sign_definition(numberplate(number=1, credentials=CERTIFICATES), MANAGER))


@given(st.integers(0, len(SAMPLE) - 1), st.binary(max_size=3), st.integers(0, 3))
@example(len(SAMPLE) - 1, b")", 0)
def test_spoilt_bytes_are_refused_or_read_as_exactly_themselves(place, inserted, dropped):
    data = SAMPLE[:place] + inserted + SAMPLE[place + dropped :]
    try:
        signed = definition_from_bytes(data)
    except MaiaError:
        return
    assert definition_to_bytes(signed) == data


@given(st.binary(max_size=64) | st.text("()0123456789:signed ", max_size=40).map(str.encode))
def test_random_bytes_are_refused_with_one_of_our_errors(data):
    with pytest.raises(MaiaError):
        definition_from_bytes(data)


@given(st.text(max_size=40) | st.text('()"#|{}[]signed 0a', max_size=40))
def test_random_text_is_refused_with_one_of_our_errors(text):
    with pytest.raises(MaiaError):
        definition_from_text(text)
